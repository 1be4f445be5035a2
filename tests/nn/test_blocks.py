"""Normalization, residual blocks, dropout and a user's own layers, on every device."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.errors import KernelError, ShapeError, UnsupportedError
from portable.nn import (
    GELU,
    SGD,
    BatchNorm1d,
    BatchNorm2d,
    Chain,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    Flow,
    GlobalAvgPool2d,
    Hardswish,
    Layer,
    LayerNorm,
    Linear,
    MaxPool2d,
    ReLU,
    Residual,
    Sequential,
    SiLU,
    Softmax,
    fit,
)
from tests.nn import numpy_layers

Array = np.ndarray[Any, Any]

SHAPE = (3, 6, 5)
BLOCKS: tuple[Layer, ...] = (
    Conv2d(3, 4, 3, padding=1, bias=False),
    BatchNorm2d(4),
    SiLU(),
    Residual(Conv2d(4, 4, 1), BatchNorm2d(4, affine=False), ReLU(), Conv2d(4, 4, 1), ReLU()),
    ReLU(),
    Residual(
        MaxPool2d(2),
        Conv2d(4, 5, 1),
        shortcut=[Conv2d(4, 5, 2, stride=2), BatchNorm2d(5)],
    ),
    GELU(),
    Chain(LayerNorm((3, 2)), GlobalAvgPool2d(), Flatten()),
    Linear(5, 6),
    BatchNorm1d(6),
    Hardswish(),
    LayerNorm(6, elementwise_affine=False),
    Residual(Linear(6, 6)),
    Softmax(),
    Linear(6, 5),
)
"""Every layer that normalizes or is made of others, with activations applied and not."""


@pytest.fixture(autouse=True)
def _in_use(request: pytest.FixtureRequest) -> Iterator[None]:
    takes_one = "device" in request.fixturenames
    with pt.use(request.getfixturevalue("device") if takes_one else "simulator"):
        yield


def with_other_values(model: Sequential) -> Sequential:
    """Parameters and running means that are not those of the beginning."""
    random = np.random.default_rng(5)
    state = model.state_dict()
    for name, value in state.items():
        own = random.standard_normal(value.shape) / 2
        state[name] = 1 + own**2 if name.endswith(("var", "weight")) and value.ndim == 1 else own
    model.load_state_dict(state)
    return model


def test_predictions_and_gradients_of_blocks(device: Device) -> None:
    dtype, tolerance = ("float64", 1e-7) if device.capabilities.float64 else ("float32", 1e-4)
    model = with_other_values(Sequential(*BLOCKS, dtype=dtype, device=device))
    random = np.random.default_rng(0)
    x, y = random.standard_normal((7, *SHAPE)).astype(dtype), random.integers(0, 5, 7)
    before = {name: value.astype(float) for name, value in model.state_dict().items()}
    told = pt.to_numpy(model(device.from_numpy(x)))
    np.testing.assert_allclose(
        told, numpy_layers.forward(BLOCKS, before, x), rtol=0, atol=10 * tolerance
    )

    def lost(state: Mapping[str, Array]) -> float:
        outputs = numpy_layers.forward(BLOCKS, state, x, training=True)
        return numpy_layers.cross_entropy(outputs, y)

    history = fit(model, x, y, loss=CrossEntropyLoss(), optimizer=SGD(lr=1), epochs=1, batch_size=7)
    assert history.train == pytest.approx([lost(before)], rel=10 * tolerance)
    after = model.state_dict()
    for name in (part for part in before if "running" not in part):
        way = random.standard_normal(before[name].shape)
        sides = [lost({**before, name: before[name] + step * way}) for step in (1e-6, -1e-6)]
        slope = float(((before[name] - after[name]) * way).sum())
        assert slope == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=20 * tolerance), name


@pytest.mark.parametrize("shape", [(1,), (3,), (130, 1, 1), (2, 40, 31)])
def test_running_means_follow_batches(device: Device, shape: tuple[int, ...]) -> None:
    """Means far from zero, and sections that divide nothing."""
    layer = BatchNorm1d(shape[0]) if len(shape) == 1 else BatchNorm2d(shape[0], momentum=0.25)
    features = int(np.prod(shape))
    model = Sequential(layer, Flatten(), Linear(features, 1), device=device)
    x = 100 + np.random.default_rng(1).standard_normal((9, *shape)).astype(np.float32)
    fit(model, x, np.zeros((9, 1), np.float32), optimizer=SGD(lr=0), epochs=1, batch_size=9)
    axes = (0, *range(2, x.ndim))
    share = 0.1 if len(shape) == 1 else 0.25
    state = model.state_dict()
    exact = x.astype(float)
    np.testing.assert_allclose(state["0.running_mean"], share * exact.mean(axes), rtol=1e-5)
    wanted = 1 - share + share * exact.var(axes, ddof=1)
    np.testing.assert_allclose(state["0.running_var"], wanted, rtol=1e-4)


def test_halves_keep_running_means_in_single_precision(device: Device, tmp_path: Path) -> None:
    model = Sequential(Linear(3, 4), BatchNorm1d(4), dtype="float16", device=device)
    x = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float16)
    fit(model, x, np.zeros((8, 4), np.float16), epochs=2, batch_size=4)
    state = model.state_dict()
    assert state["1.running_mean"].dtype == np.float32
    assert state["1.weight"].dtype == np.float16
    model.save(tmp_path / "a.safetensors")
    again = Sequential.load(tmp_path / "a.safetensors", device=device)
    assert all((again.state_dict()[name] == value).all() for name, value in state.items())


def test_dropout_leaves_out_a_share_in_training_alone(device: Device) -> None:
    model = Sequential(Dropout(0.25, seed=3), Linear(400, 1, bias=False), device=device)
    x = device.from_numpy(np.ones((5, 400), np.float32))
    weight = model.state_dict()["1.weight"]
    np.testing.assert_allclose(pt.to_numpy(model(x)), np.full((5, 1), weight.sum()), atol=1e-4)
    stage = model.stages((400,), training=True)[0]
    steps = []
    for _ in range(2):
        y, dx = device.empty((5, 400), kl.f32), device.empty((5, 400), kl.f32)
        stage.train(x, y, None)
        stage.backward(Flow(x, y, x, dx), (), None)
        steps.append(device.to_numpy(y))
        assert (device.to_numpy(dx) == steps[-1]).all()
    assert set(np.unique(steps[0])) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert (steps[0] > 0).mean() == pytest.approx(0.75, abs=0.05)
    assert (steps[0] != steps[1]).any()


# -- a user's own ---------------------------------------------------------------------------------


@pt.kernel
def scale(x: Any, weight: Any, y: Any) -> None:
    row, column = kl.global_id(1), kl.global_id(0)
    y[row, column] = x[row, column] * weight[column]


@pt.kernel
def scale_slopes(x: Any, dy: Any, out: Any) -> None:
    column = kl.global_id(0)
    total = kl.cast(0, kl.accumulator(x.dtype))
    for row in range(x.shape[0]):
        total += x[row, column] * dy[row, column]
    out[column] = total


class Scale(Layer):
    """Each feature times a number of its own."""

    def __init__(self, features: int) -> None:
        self.features = features

    def parameters(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.features,)}

    def starts(self) -> dict[str, float]:
        return {"weight": 2.0}

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if shape != (self.features,):
            raise ShapeError(f"it takes vectors of {self.features}")
        return shape

    def forward(self, x: Any, y: Any, parameters: Mapping[str, Any]) -> None:
        scale[y.shape[::-1], None](x, parameters["weight"], y)


class TrainedScale(Scale):
    """The same with a way back."""

    def backward(
        self, flow: Flow, parameters: Mapping[str, Any], gradients: Mapping[str, Any]
    ) -> None:
        scale_slopes[self.features](flow.x, flow.dy, gradients["weight"])
        if flow.dx is not None:
            scale[flow.dx.shape[::-1], None](flow.dy, parameters["weight"], flow.dx)


def test_layers_of_ones_own_predict_and_are_trained(device: Device) -> None:
    model = Sequential(
        Linear(3, 4), TrainedScale(4), ReLU(), Residual(Scale(4)), Linear(4, 2),
        device=device,
    )  # fmt: skip
    random = np.random.default_rng(0)
    x = random.standard_normal((6, 3)).astype(np.float32)
    y = random.standard_normal((6, 2)).astype(np.float32)
    state = {name: value.astype(float) for name, value in model.state_dict().items()}
    assert (state["1.weight"] == 2).all()

    def outputs(state: Mapping[str, Array]) -> Array:
        first = np.maximum((x @ state["0.weight"].T + state["0.bias"]) * state["1.weight"], 0)
        return (first * state["3.0.weight"] + first) @ state["4.weight"].T + state["4.bias"]

    told = pt.to_numpy(model(device.from_numpy(x)))
    np.testing.assert_allclose(told, outputs(state), atol=1e-5)
    fit(model, x, y, optimizer=SGD(lr=1), epochs=1, batch_size=6)
    after = model.state_dict()
    for name, value in state.items():
        way = random.standard_normal(value.shape)
        sides = [
            ((outputs({**state, name: value + step * way}) - y) ** 2).mean()
            for step in (1e-6, -1e-6)
        ]
        slope = float(((value - after[name]) * way).sum())
        assert slope == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=1e-3), name


@pt.kernel
def greatest(x: Any, weight: Any, y: Any) -> None:
    row, column = kl.global_id(1), kl.global_id(0)
    kl.atomic_max(y, (row, column), x[row, column] * weight[column])


class Greatest(Scale):
    """One whose forward has no gradient."""

    def forward(self, x: Any, y: Any, parameters: Mapping[str, Any]) -> None:
        pt.primitives.fill(y, 0)
        greatest[y.shape[::-1], None](x, parameters["weight"], y)


def test_a_layer_of_ones_own_without_a_way_back_is_not_trained(tmp_path: Path) -> None:
    model = Sequential(Linear(3, 3), Greatest(3), Linear(3, 1), device="simulator")
    with pytest.raises(KernelError, match="atomic_max"):
        fit(model, np.ones((2, 3), np.float32), np.ones((2, 1), np.float32), epochs=1, batch_size=2)
    model = Sequential(Linear(3, 3), Scale(3), Linear(3, 1), device="simulator")
    with pytest.raises(UnsupportedError, match=r"your own \(Scale\) cannot be saved"):
        model.save(tmp_path / "a.safetensors")


# -- what does not depend on a device -------------------------------------------------------------


def test_blocks_are_saved_with_their_layers(tmp_path: Path) -> None:
    model = with_other_values(Sequential(*BLOCKS, Dropout(0.1), device="simulator"))
    model.save(tmp_path / "a.safetensors")
    again = Sequential.load(tmp_path / "a.safetensors", device="simulator")
    assert again.layers == model.layers
    assert all((again.state_dict()[name] == v).all() for name, v in model.state_dict().items())
    for copied in (model.copy(), deepcopy(model), pickle.loads(pickle.dumps(model))):
        state = copied.state_dict()
        assert all((state[name] == v).all() for name, v in model.state_dict().items())
        assert copied.vector is not model.vector


def test_networks_inside_networks_keep_their_parameters() -> None:
    inner = with_other_values(Sequential(Linear(3, 4), BatchNorm1d(4), ReLU(), device="simulator"))
    model = Sequential(inner, Linear(4, 2), device="simulator")
    assert isinstance(model.layers[0], Chain)
    state = model.state_dict()
    assert list(state)[:3] == ["0.0.weight", "0.0.bias", "0.1.weight"]
    assert all((state[f"0.{name}"] == value).all() for name, value in inner.state_dict().items())


def test_counts_of_batches_are_passed_over() -> None:
    model = Sequential(BatchNorm1d(2), device="simulator")
    state = {**model.state_dict(), "0.num_batches_tracked": np.array(7)}
    model.load_state_dict(state)
    with pytest.raises(ShapeError, match=r"missing: 0\.running_mean, unknown: none"):
        model.load_state_dict({k: v for k, v in state.items() if not k.endswith("mean")})


def test_blocks_that_make_no_sense_are_refused() -> None:
    for make, error, words in (
        (lambda: BatchNorm2d(0), ShapeError, r"num_features=0"),
        (lambda: BatchNorm2d(2, eps=0), ValueError, r"eps=0\): expected a positive"),
        (lambda: BatchNorm2d(2, momentum=2), ValueError, "momentum=2"),
        (lambda: BatchNorm2d(2, affine=1), ValueError, "affine=1"),  # type: ignore[arg-type]
        (lambda: LayerNorm(()), ShapeError, "expected extents from 1"),
        (lambda: Dropout(1), ValueError, r"p=1\): expected a number from 0 to below 1"),
        (Residual, ShapeError, "no layers"),
        (lambda: Residual(3), TypeError, "layer 0 is 3"),  # type: ignore[arg-type]
    ):
        with pytest.raises(error, match=words):
            make()  # type: ignore[no-untyped-call]
    for layer, shape, words in (
        (BatchNorm2d(2), (3, 4, 4), "samples of 2 channels, not of 3"),
        (BatchNorm1d(2), (2, 4, 4), "takes vectors"),
        (LayerNorm((4, 4)), (2, 4), r"last extents are \(4, 4\)"),
        (GlobalAvgPool2d(), (2,), "takes images"),
        (Residual(Linear(2, 3)), (2,), r"make \(3,\) of samples of \(2,\) and its shortcut"),
    ):
        with pytest.raises(ShapeError, match=words):
            Sequential(layer, device="simulator").output_shape(shape)
