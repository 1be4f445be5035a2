"""Training on every device, both ways: gradients, optimizers, and the loop around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable
from portable import kernel
from portable import lang as kl
from portable.backend import Device
from portable.errors import DTypeError, LaunchError, ShapeError
from portable.nn import (
    MLP,
    SGD,
    Adam,
    AdamW,
    Conv2d,
    Loss,
    Sequential,
    fit,
    fused,
    huber,
    mae,
    mse,
    quantile,
    schedules,
)
from portable.nn.activations import ACTIVATIONS
from portable.nn.fused import FusedTrainer
from portable.nn.history import History
from portable.nn.layered import LayeredTrainer
from portable.nn.loss_passes import MeanLoss
from portable.nn.step import Step
from portable.nn.training import trainer_for
from tests.nn import numpy_network

Array = np.ndarray[Any, Any]

WAYS = ["one launch", "layer by layer"]
SIZES = (3, 7, 2)
"""One network for most tests, since every other one is another program to compile."""
MSE = numpy_network.mse


@pytest.fixture(autouse=True)
def _in_use(device: Device) -> Iterator[None]:
    with portable.use(device):
        yield


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Networks are trained both ways, whatever their size."""
    if request.param == "layer by layer":
        monkeypatch.setattr("portable.nn.fused.training_shape", lambda *given, **more: None)
    return str(request.param)


def precision(device: Device) -> str:
    return "float64" if device.capabilities.float64 else "float32"


def network(device: Device) -> MLP:
    return MLP(SIZES, device=device, dtype=precision(device))


def samples(count: int, sizes: Sequence[int], dtype: str, targets: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng([count, *sizes])
    x = random.standard_normal((count, sizes[0])).astype(dtype)
    return x, random.standard_normal((count, targets or sizes[-1])).astype(dtype)


def doubled(model: MLP) -> dict[str, Array]:
    return {name: value.astype(float) for name, value in model.state_dict().items()}


def gradient_of(
    model: MLP, loss: Loss, x: Array, y: Array, batch: int = 0
) -> tuple[float, dict[str, Array]]:
    """The mean loss, and its gradient as what plain descent at a rate of 1 takes off."""
    before = model.state_dict()
    history = fit(model, x, y, loss=loss, optimizer=SGD(lr=1), epochs=1, batch_size=batch or len(x))
    after = model.state_dict()
    return history.train[0], {name: before[name] - after[name] for name in before}


def assert_near(
    found: dict[str, Array], exact: dict[str, Array], dtype: str, slack: float = 1
) -> None:
    tolerance = slack * {"float16": 4e-3, "float32": 2e-6, "float64": 1e-14}[dtype]
    for name, value in exact.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance, err_msg=name)


# -- gradients ------------------------------------------------------------------------------------

BOTH = (True, True)
FUSED = (True, False)
LAYERS = (False, True)
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
def values_and_slopes(x: Any, values: Any, slopes: Any, *, FUNCTION: Any, SLOPE: Any) -> None:
    i = kl.global_id(0)
    if i < x.shape[0]:
        value = FUNCTION(x[i])
        values[i] = value
        slopes[i] = SLOPE(value)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slopes_of_activations(device: Device, name: str) -> None:
    x = np.array([-90, -3, -0.5, 0, 0.25, 2, 90], np.float32)
    values, slopes = (device.empty((x.size,), kl.f32) for _ in range(2))
    found = ACTIVATIONS[name]
    values_and_slopes[x.size](
        device.from_numpy(x), values, slopes, FUNCTION=found.function, SLOPE=found.slope
    )
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
    monkeypatch.setattr("portable.nn.fused_shapes._MOST_ROWS", 16)
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


# -- optimizers -----------------------------------------------------------------------------------

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


# -- the loop -------------------------------------------------------------------------------------

LOOP: Any = {"optimizer": SGD(0.05), "batch_size": 8}


def test_training_learns(device: Device, way: str) -> None:
    x, _ = samples(24, SIZES, precision(device))
    y = np.maximum(x[:, :2], 0)
    model = network(device)
    epochs = 4 if device.interprets else 200
    history = fit(model, x, y, **LOOP, epochs=epochs)
    assert history.stopped == "epochs"
    assert history.epochs == epochs
    assert history.validation == []
    assert history.train[-1] < history.train[0] * (0.9 if epochs == 4 else 0.1)


def test_the_same_seed_gives_the_same_parameters(device: Device, way: str) -> None:
    x, y = samples(20, SIZES, precision(device))
    states = []
    for seed in (1, 1, 2):
        model = network(device)
        fit(model, x, y, **LOOP, epochs=1, seed=seed)
        states.append(model.state_dict()["0.weight"])
    assert np.array_equal(states[0], states[1])
    assert not np.array_equal(states[0], states[2])


def test_devices_agree_for_the_first_steps(device: Device, way: str) -> None:
    x, y = samples(20, SIZES, precision(device))
    states = []
    for where in (device, portable.device("simulator")):
        model = MLP(SIZES, device=where, dtype=precision(device))
        with portable.use(where):
            fit(model, x, y, **LOOP, epochs=1)
        states.append(model.state_dict())
    assert_near(states[0], states[1], precision(device))


def test_the_best_epoch_is_restored(device: Device, way: str) -> None:
    x, y = samples(10, SIZES, precision(device))
    model = network(device)
    kept: list[dict[str, Array]] = []

    def turns_back(step: int, steps: int) -> float:
        kept.append(model.state_dict())
        return 0.2 if step < 3 else -50.0

    history = fit(model, x, y, **LOOP, epochs=10, validation=0.2, schedule=turns_back, patience=2)
    best = history.best_epoch
    assert best is not None
    assert history.stopped == "patience"
    assert history.restored
    assert history.epochs == best + 3
    assert np.array_equal(model.state_dict()["0.weight"], kept[best + 1]["0.weight"])
    watched = device.from_numpy(x[8:]), device.from_numpy(y[8:])
    assert MeanLoss(model, mse)(*watched) == history.validation[best]


def test_interrupting_leaves_a_network_that_works(device: Device, way: str) -> None:
    def interrupts(step: int, steps: int) -> float:
        if step == 2:
            raise KeyboardInterrupt
        return 1.0

    x, y = samples(8, SIZES, precision(device))
    model = network(device)
    history = fit(model, x, y, **LOOP, epochs=9, validation=(x, y), schedule=interrupts)
    assert history.stopped == "interrupted"
    assert history.epochs == 2
    assert np.isfinite(device.to_numpy(model(device.from_numpy(x)))).all()


def test_training_that_diverges_leaves_a_network_that_works(device: Device, way: str) -> None:
    """In the fourth of six epochs, then in the only one, after which no loss would tell."""
    huge = 1e37 if precision(device) == "float32" else 1e300

    def runs_away(step: int, steps: int) -> float:
        return 1.0 if step < 3 and steps > 1 else huge

    x, y = samples(8, SIZES, precision(device))
    model, expected = network(device), network(device)
    fit(expected, x, y, **LOOP, epochs=3)
    for epochs, kept in ((6, 2), (1, -1)):
        with pytest.warns(UserWarning, match="diverged in epoch"):
            history = fit(model, x, y, **LOOP, epochs=epochs, schedule=runs_away)
        assert history.stopped == "diverged"
        assert history.restored
        assert history.kept_epoch == kept
        for name, value in expected.state_dict().items():
            assert np.array_equal(model.state_dict()[name], value)


def test_infinite_parameters_behind_finite_outputs_are_seen(device: Device) -> None:
    """What feeds units that are off for ever."""
    x, y = samples(8, SIZES, precision(device))
    model = network(device)
    state = model.state_dict()

    def spoils(step: int, steps: int) -> float:
        if step == 1:
            model.parameters()[1][...] = device.from_numpy(np.full(7, -np.inf, x.dtype))
        return 0.0

    with pytest.warns(UserWarning, match="after epoch 0"):
        fit(model, x, y, **LOOP, epochs=3, validation=(x, y), schedule=spoils)
    assert np.array_equal(model.state_dict()["0.bias"], state["0.bias"])
    model.parameters()[1][...] = device.from_numpy(np.full(7, np.nan, x.dtype))
    with pytest.raises(ValueError, match=r"parameters of .* are NaN or infinite"):
        fit(model, x, y, **LOOP, epochs=1)


def test_the_progress_bar_shows_losses(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = samples(8, SIZES, precision(device))
    model = network(device)
    fit(model, x, y, **LOOP, epochs=1, validation=(x, y))
    assert capsys.readouterr() == ("", "")
    fit(model, x, y, **LOOP, epochs=1, validation=(x, y), progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "1/1" in err
    assert "validation" in err


# -- what is refused ------------------------------------------------------------------------------


def test_data_that_does_not_fit_is_refused(device: Device) -> None:
    model = MLP(SIZES, device=device)
    x, y = samples(12, SIZES, "float32")
    fixed: Any = {"epochs": 1, "batch_size": 4}
    with pytest.raises(ShapeError, match=r"x has shape \(12, 2\)"):
        fit(model, y, y, **fixed)
    with pytest.raises(ShapeError, match=r"y has shape \(12, 3\)"):
        fit(model, x, x, **fixed)
    with pytest.raises(ShapeError, match="x has 12 rows and y 11"):
        fit(model, x, y[:11], **fixed)
    with pytest.raises(ShapeError, match="at least one"):
        fit(model, x[:0], y[:0], **fixed)
    with pytest.raises(DTypeError, match="y is float16"):
        fit(model, x, y.astype(np.float16), **fixed)
    with pytest.raises(DTypeError, match="list is no array"):
        fit(model, x.tolist(), y, **fixed)
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match="fit: x holds NaN; leave such samples out"):
        fit(model, x, y, **fixed)
    with pytest.raises(ValueError, match="validation y holds an infinity"):
        fit(model, x[:3], y[:3], validation=(x[:3], np.full((3, 2), np.inf, np.float32)), **fixed)


def test_settings_out_of_range_are_refused(device: Device) -> None:
    model = MLP(SIZES, device=device)
    x, y = samples(12, SIZES, "float32")
    fixed: Any = {"epochs": 1, "batch_size": 4}
    for name, value in (("epochs", 0), ("batch_size", 0), ("clip_norm", 0.0), ("patience", 0)):
        with pytest.raises(ValueError, match=f"{name}=0"):
            fit(model, x, y, **{**fixed, name: value})
    for name in ("epochs", "batch_size", "patience"):
        with pytest.raises(TypeError, match=rf"{name}=1\.5: expected a whole number"):
            fit(model, x, y, **{**fixed, name: 1.5})
    for optimizer in ("adam", Adam):
        with pytest.raises(TypeError, match=r"optimizer=.*; give SGD, Adam or AdamW"):
            fit(model, x, y, optimizer=optimizer, **fixed)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there are mse, mae, huber"):
        fit(model, x, y, loss="hinge", **fixed)
    with pytest.raises(ValueError, match="patience needs a validation part"):
        fit(model, x, y, patience=3, **fixed)
    with pytest.raises(ValueError, match="leaves 0 to train on"):
        fit(model, x, y, validation=0.99, **fixed)
    with pytest.raises(ValueError, match="validation=nan: expected"):
        fit(model, x, y, validation=float("nan"), **fixed)
    with pytest.raises(ValueError, match=r"SGD\(lr=1e\+300.*beyond float32.*1e\+300"):
        fit(model, x, y, optimizer=SGD(1e300), **fixed)
    with pytest.raises(ShapeError, match="3 levels"):
        fit(model, x, y, loss=quantile((0.1, 0.5, 0.9)), **fixed)


def test_losses_and_optimizers_check_their_settings() -> None:
    with pytest.raises(ValueError, match="above 0"):
        huber(0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile((0.5, 1.0))
    with pytest.raises(ValueError, match="one or more numbers"):
        quantile(0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"SGD\(momentum=1\.5\)"):
        SGD(momentum=1.5)
    with pytest.raises(ValueError, match=r"Adam\(betas\[1\]=1\)"):
        Adam(betas=(0.9, 1))


# -- schedules and histories -----------------------------------------------------------------------


def test_schedules() -> None:
    assert [schedules.Cosine(0.1)(i, 10) for i in (0, 5, 10)] == pytest.approx([1, 0.55, 0.1])
    assert [schedules.Exponential(0.01)(i, 10) for i in (0, 5)] == pytest.approx([1, 0.1])
    assert [schedules.Steps()(i, 8) for i in (0, 3, 4, 6)] == pytest.approx([1, 1, 0.1, 0.01])
    warm = schedules.Warmup(4, schedules.Steps(at=(0.5,)))
    assert [warm(i, 8) for i in (0, 1, 3, 4)] == pytest.approx([0.25, 0.5, 1, 0.1])


def test_the_best_epoch_is_that_of_the_least_loss() -> None:
    assert History().best_epoch is None
    assert History(train=[3, 1, 2]).best_epoch == 1
    assert History(train=[3, 1, 2], validation=[1, 2, float("nan")]).best_epoch == 0


def test_bfloat16_learns_and_is_kept_in_files(device: Device, way: str, tmp_path: Path) -> None:
    kind = pytest.importorskip("ml_dtypes").bfloat16
    x = np.linspace(-1, 1, 32, dtype=np.float32)[:, None].astype(kind)
    model = MLP((1, 8, 1), device=device, dtype="bfloat16")
    history = fit(model, x, x * x, optimizer=Adam(0.03), epochs=12, batch_size=16)
    assert history.train[-1] < 0.5 * history.train[0]
    model.save(tmp_path / "model")
    again = MLP.load(tmp_path / "model", device=device)
    given = device.from_numpy(x)
    found, kept = (portable.to_numpy(m(given)) for m in (model, again))
    assert found.dtype == kind
    assert np.array_equal(found, kept)
    # Far below what half precision's numbers reach, without a scale: the parameters still move.
    small = np.full((16, 1), 1e-9, np.float32).astype(kind)
    before = model.state_dict()
    fit(model, small, small, optimizer=SGD(1.0), epochs=1, batch_size=16)
    assert any((before[name] != part).any() for name, part in model.state_dict().items())


def test_layers_that_know_no_bfloat16_say_so(device: Device) -> None:
    pytest.importorskip("ml_dtypes")
    with pytest.raises(DTypeError, match=r"Conv2d.* is worked out in float16, float32, float64"):
        Sequential(Conv2d(1, 1, 3), dtype="bfloat16", device=device)


def test_replayed_epochs_are_the_same(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a device repeats work, an epoch's arrays are filled again for the next one."""
    x, y = (device.from_numpy(part) for part in samples(9, SIZES, precision(device)))
    found, replayed = [], []

    def replay(work: Callable[[], object]) -> Callable[[], object]:
        replayed.append(work)
        return partial(work)

    for repeats in (lambda work: work, replay):
        monkeypatch.setattr(device, "replay", repeats)
        model = MLP(SIZES, device=device, dtype=precision(device))
        trainer = LayeredTrainer(model, Step(huber(0.5), Adam(0.1), 4))
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(9).astype(np.int32)[None]
            trainer.epochs(x, y, order, Adam(0.1).numbers(1 + 3 * seed, [0.1, 0.05, 0.02]))
        found.append(model.state_dict())
    assert len(replayed) == 1
    assert all((found[0][name] == part).all() for name, part in found[1].items())


def test_settings_are_known_and_complete(device: Device) -> None:
    model = MLP((1, 1), device=device)
    x = np.zeros((2, 1), np.float32)
    wrong: Any = {"epochs": 1, "batchsize": 1}
    with pytest.raises(TypeError, match="fit needs batch_size and knows no batchsize"):
        fit(model, x, x, **wrong)
