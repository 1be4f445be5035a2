"""Optimizers on every device, both ways, against their formulas; schedules and clipping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from portable.backend import Device
from portable.nn import MLP, SGD, Adam, AdamW, fit, mse, schedules
from portable.nn.layered import LayeredTrainer
from portable.nn.optimizers import Step
from tests.nn import numpy_network
from tests.nn.both_ways import (
    BOTH,
    LAYERS,
    MSE,
    SIZES,
    WAYS,
    assert_near,
    doubled,
    network,
    precision,
    samples,
)

pytestmark = pytest.mark.usefixtures("in_use")

OPTIMIZERS: dict[str, tuple[Any, Any, Callable[[], Any]]] = {
    "decay": (LAYERS, SGD(0.1, weight_decay=0.2), lambda: numpy_network.SGD(0.1, decay=0.2)),
    "momentum": (LAYERS, SGD(0.1, momentum=0.9), lambda: numpy_network.SGD(0.1, 0.9)),
    "Nesterov": (
        BOTH,
        SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.2),
        lambda: numpy_network.SGD(0.1, 0.9, True, 0.2),
    ),
    "Adam": (
        LAYERS,
        Adam(0.1, weight_decay=0.2),
        lambda: numpy_network.Adam(0.1, (0.9, 0.999), 1e-8, 0.2, False),
    ),
    "AdamW": (
        BOTH,
        AdamW(0.1, betas=(0.8, 0.9)),
        lambda: numpy_network.Adam(0.1, (0.8, 0.9), 1e-8, 0.01, True),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_follow_their_formulas(device: Device, way: str, name: str) -> None:
    ways, optimizer, make = OPTIMIZERS[name]
    if not ways[WAYS.index(way)]:
        pytest.skip("covered by the other cases, and slow to compile")
    dtype = precision(device)
    model = MLP(SIZES, device=device, dtype=dtype)
    x, y = samples(8, SIZES, dtype)
    state, reference = doubled(model), make()
    for _ in range(4):
        _, gradient = numpy_network.gradients(state, x, y, "relu", MSE)
        state = reference.step(state, gradient)
    fit(model, x, y, optimizer=optimizer, epochs=4, batch_size=8)
    assert_near(model.state_dict(), state, dtype, slack=100)


def test_batches_follow_the_drawn_order(device: Device, way: str) -> None:
    model = network(device)
    x, y = samples(20, SIZES, precision(device))
    state = doubled(model)
    random = np.random.Generator(np.random.Philox(9))
    reference, losses = numpy_network.SGD(0.05), []
    for _ in range(2):
        order = random.permutation(20)
        summed = 0.0
        for rows in (order[:8], order[8:16], order[16:]):
            loss, gradient = numpy_network.gradients(state, x[rows], y[rows], "relu", MSE)
            summed += loss * len(rows)
            state = reference.step(state, gradient)
        losses.append(summed / 20)
    history = fit(model, x, y, optimizer=SGD(0.05), epochs=2, batch_size=8, seed=9)
    assert_near(model.state_dict(), state, precision(device))
    assert history.train == pytest.approx(losses, rel=1e-5)


def test_gradients_are_clipped_by_their_norm(device: Device, way: str) -> None:
    x, y = samples(8, SIZES, precision(device))
    model = network(device)
    state = model.state_dict()
    _, exact = numpy_network.gradients(state, x, y, "relu", MSE)
    norm = np.sqrt(sum((g**2).sum() for g in exact.values()))
    for limit in (norm / 2, 2 * norm, 1e300):
        factor = min(1, limit / (norm + 1e-6))
        model.load_state_dict(state)
        fit(model, x, y, optimizer=SGD(1), epochs=1, batch_size=8, clip_norm=float(limit))
        found = {name: state[name] - value for name, value in model.state_dict().items()}
        assert_near(found, {name: factor * g for name, g in exact.items()}, precision(device))


def test_schedules_multiply_the_learning_rate(device: Device, way: str) -> None:
    def only_the_second_of(step: int, steps: int) -> float:
        assert steps == 4
        return float(step == 1)

    x, y = samples(8, SIZES, precision(device))
    scheduled, plain = network(device), network(device)
    fit(scheduled, x, y, optimizer=SGD(0.1), epochs=4, batch_size=8, schedule=only_the_second_of)
    fit(plain, x, y, optimizer=SGD(0.1), epochs=1, batch_size=8)
    assert_near(scheduled.state_dict(), plain.state_dict(), precision(device))


def test_half_precision_outlives_an_overflow(device: Device) -> None:
    """Gradients beyond the range of the type cost a few steps, not the training."""
    model = MLP((3, 2), device=device, dtype="float16")
    x, y = samples(8, (3, 2), "float16")
    trainer = LayeredTrainer(model, Step(mse, SGD(0.1), 8))
    order = np.arange(8, dtype=np.int32)[None]
    before = model.state_dict()["0.weight"]
    on_device = device.from_numpy(x), device.from_numpy(100 * y)
    moved = []
    for _ in range(12):
        (epoch,) = trainer.epochs(*on_device, order, SGD(0.1).numbers(1, [0.1]))
        assert np.isfinite(epoch.loss)
        moved.append(not np.array_equal(model.state_dict()["0.weight"], before))
    assert not moved[0]
    assert moved[-1]
    assert all(np.isfinite(value).all() for value in model.state_dict().values())


def test_schedules() -> None:
    assert [schedules.Cosine(0.1)(i, 10) for i in (0, 5, 10)] == pytest.approx([1, 0.55, 0.1])
    assert [schedules.Exponential(0.01)(i, 10) for i in (0, 5)] == pytest.approx([1, 0.1])
    assert [schedules.Steps()(i, 8) for i in (0, 3, 4, 6)] == pytest.approx([1, 1, 0.1, 0.01])
    warm = schedules.Warmup(4, schedules.Steps(at=(0.5,)))
    assert [warm(i, 8) for i in (0, 1, 3, 4)] == pytest.approx([0.25, 0.5, 1, 0.1])
