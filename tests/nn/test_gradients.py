"""Gradients on every device, both ways, against NumPy's and differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from portable import kernel
from portable import lang as kl
from portable.backend import Device
from portable.errors import LaunchError
from portable.nn import MLP, SGD, Adam, Loss, fit, fused, huber, mae, mse, quantile
from portable.nn.activations import ACTIVATIONS
from portable.nn.fused import FusedTrainer
from portable.nn.layered import LayeredTrainer
from portable.nn.loss_passes import MeanLoss
from portable.nn.optimizers import Step
from portable.nn.training import trainer_for
from tests.nn import numpy_network
from tests.nn.both_ways import (
    BOTH,
    FUSED,
    LAYERS,
    MSE,
    SIZES,
    WAYS,
    Array,
    assert_near,
    network,
    precision,
    samples,
)

pytestmark = pytest.mark.usefixtures("in_use")


def gradient_of(
    model: MLP, loss: Loss, x: Array, y: Array, batch: int = 0
) -> tuple[float, dict[str, Array]]:
    """The mean loss, and its gradient as what plain descent at a rate of 1 takes off."""
    before = model.state_dict()
    history = fit(model, x, y, loss=loss, optimizer=SGD(lr=1), epochs=1, batch_size=batch or len(x))
    after = model.state_dict()
    return history.train[0], {name: before[name] - after[name] for name in before}


CASES: list[tuple[Any, Loss, Any, str, list[int]]] = [
    (BOTH, mse, MSE, "relu", [3, 7, 2]),
    (FUSED, quantile((0.1, 0.9)), numpy_network.quantile((0.1, 0.9)), "tanh", [2, 5, 4, 6]),
    (LAYERS, quantile((0.1, 0.9)), numpy_network.quantile((0.1, 0.9)), "relu", [2, 5, 4, 6]),
    (LAYERS, mae, numpy_network.mae, "relu", [3, 7, 2]),
    (LAYERS, huber(0.5), numpy_network.huber(0.5), "relu", [3, 7, 2]),
]


@pytest.mark.parametrize(("ways", "loss", "term", "activation", "sizes"), CASES)
def test_gradients_are_right(
    device: Device, way: str, ways: Any, loss: Loss, term: Any, activation: str, sizes: list[int]
) -> None:
    if not ways[WAYS.index(way)]:
        pytest.skip("covered by the other cases, and slow to compile")
    dtype = precision(device)
    model = MLP(sizes, activation=activation, device=device, dtype=dtype)
    x, y = samples(8, sizes, dtype, loss.targets(sizes[-1]))
    state = model.state_dict()
    value, exact = numpy_network.gradients(state, x, y, activation, term)
    lost, found = gradient_of(model, loss, x, y)
    assert lost == pytest.approx(value, rel=1e-6 if dtype == "float32" else 1e-13)
    assert_near(found, exact, dtype)


@kernel
def values_and_slopes(
    x: Any, values: Any, slopes: Any, *, FUNCTION: Any, SLOPE: Any, BY_VALUE: bool
) -> None:
    i = kl.global_id(0)
    if i < x.shape[0]:
        value = FUNCTION(x[i])
        values[i] = value
        slopes[i] = SLOPE(value if BY_VALUE else x[i])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slopes_of_activations(device: Device, name: str) -> None:
    x = np.array([-90, -3, -0.5, 0, 0.25, 2, 90], np.float32)
    values, slopes = (device.empty((x.size,), kl.f32) for _ in range(2))
    found = ACTIVATIONS[name]
    values_and_slopes[x.size](
        device.from_numpy(x), values, slopes,
        FUNCTION=found.function, SLOPE=found.slope, BY_VALUE=found.by_value,
    )  # fmt: skip
    value, slope = numpy_network.ACTIVATIONS[name]
    np.testing.assert_allclose(device.to_numpy(values), value(x.astype(float)), atol=1e-6)
    np.testing.assert_allclose(device.to_numpy(slopes), slope(x.astype(float)), atol=1e-6)


@pytest.mark.needs_float64
def test_gradients_agree_with_differences(device: Device, way: str) -> None:
    model = MLP(SIZES, device=device, dtype="float64")
    x, y = samples(8, SIZES, "float64")
    state = model.state_dict()
    on_device = device.from_numpy(x), device.from_numpy(y)
    _, found = gradient_of(model, mse, x, y)
    for name, place in (("0.weight", (3, 1)), ("0.bias", (2,)), ("2.weight", (0, 4))):
        sides = []
        for sign in (1, -1):
            moved = {key: value.copy() for key, value in state.items()}
            moved[name][place] += sign * 1e-6
            model.load_state_dict(moved)
            sides.append(MeanLoss(model, mse)(*on_device))
        difference = (sides[0] - sides[1]) / 2e-6
        assert found[name][place] == pytest.approx(difference, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(
    ("way", "dtype", "sizes"),
    [
        ("one launch", "float16", SIZES),
        ("one launch", "float32", SIZES),
        ("layer by layer", "float16", (3, 2)),
    ],
    indirect=["way"],
)
def test_gradients_in_lower_precision(
    device: Device, way: str, dtype: str, sizes: tuple[int, ...]
) -> None:
    model = MLP(sizes, device=device, dtype=dtype)
    x, y = samples(8, sizes, dtype)
    x /= 4  # a larger gradient would overflow in half precision, and the step be left out
    _, exact = numpy_network.gradients(model.state_dict(), x, y, "relu", MSE)
    _, found = gradient_of(model, mse, x, y)
    assert_near(found, exact, dtype)


def test_batches_larger_than_what_a_workgroup_holds_and_targets_in_a_vector(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portable.nn.fused_parts._MOST_ROWS", 16)
    model = MLP((3, 7, 1), device=device)
    x, y = samples(39, (3, 7, 1), "float32")
    assert isinstance(trainer_for(model, Step(mse, SGD(), 39)), FusedTrainer)
    _, exact = numpy_network.gradients(model.state_dict(), x, y, "relu", MSE)
    _, found = gradient_of(model, mse, x, y[:, 0])
    assert_near(found, exact, "float32")


def test_what_is_too_large_is_trained_layer_by_layer(device: Device) -> None:
    small, large = MLP([10, 64, 1], device=device), MLP([300, 300, 300], device=device)
    assert isinstance(trainer_for(small, Step(mse, Adam(), 256)), FusedTrainer)
    assert isinstance(trainer_for(large, Step(mse, Adam(), 256)), LayeredTrainer)


class OfFewItems:
    """A kernel that needs so many registers that a workgroup has few work-items."""

    def __init__(self, kernel: Any, most: int) -> None:
        self._kernel = kernel
        self._most = most

    def __getitem__(self, sizes: tuple[Any, int]) -> Any:
        return self._kernel[sizes] if sizes[1] <= self._most else self._refuse

    def _refuse(self, *arguments: Any, **constants: Any) -> None:
        raise LaunchError(f"at most {self._most} work-items")


def test_fewer_work_items_where_a_device_refuses(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network(device)
    x, y = (device.from_numpy(v) for v in samples(8, SIZES, precision(device)))
    shape = FusedTrainer.shape(model, Step(mse, SGD(), 8))
    assert shape is not None
    few = OfFewItems(fused.train_epochs, shape.size)
    monkeypatch.setattr(fused, "train_epochs", few)
    order, numbers = np.arange(8, dtype=np.int32)[None], SGD().numbers(1, [0.1])
    trainer = FusedTrainer(model, Step(mse, SGD(), 8), replace(shape, size=16 * shape.size))
    (lost,) = trainer.epochs(x, y, order, numbers)
    usual = FusedTrainer(network(device), Step(mse, SGD(), 8), shape)
    assert usual.epochs(x, y, order, numbers) == [lost]
    few = OfFewItems(fused.train_epochs, 0)
    monkeypatch.setattr(fused, "train_epochs", few)
    trainer = FusedTrainer(model, Step(mse, SGD(), 8), shape)
    with pytest.raises(LaunchError, match="at most 0"):
        trainer.epochs(x, y, order, numbers)
