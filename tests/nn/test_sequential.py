"""Networks of layers of all kinds, on every device: what they compute, learn and refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable.backend import Device
from portable.errors import DeviceMismatchError, DTypeError, ShapeError, UnsupportedError
from portable.nn import (
    MLP,
    SGD,
    Adam,
    AvgPool2d,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Layer,
    Linear,
    MaxPool2d,
    ModelFileError,
    ReLU,
    Sequential,
    Sigmoid,
    Tanh,
    fit,
)
from tests.nn import numpy_layers

Array = np.ndarray[Any, Any]

SHAPE = (2, 9, 8)
SLANTED = Conv2d(2, 2, (2, 1), stride=(2, 1), padding=(1, 0), groups=2)
MIXED: tuple[Layer, ...] = (
    SLANTED,
    ReLU(),
    MaxPool2d(3, stride=2, padding=1),
    SLANTED,
    ReLU(),
    AvgPool2d((2, 3), stride=1, padding=(1, 1)),
    Tanh(),
    Flatten(),
    Linear(24, 7, bias=False),
    Sigmoid(),
    Linear(7, 5),
)
"""Every kind of layer, with and without biases and an activation that they apply themselves."""

PLAIN: tuple[Layer, ...] = (Conv2d(2, 3, 3), ReLU(), MaxPool2d(2), Flatten(), Linear(27, 4))
"""A small one, since every kernel is another program to compile in each precision."""


@pytest.fixture(autouse=True)
def _in_use(request: pytest.FixtureRequest) -> Iterator[None]:
    takes_one = "device" in request.fixturenames
    with pt.use(request.getfixturevalue("device") if takes_one else "simulator"):
        yield


def batch(count: int, classes: int, dtype: Any = np.float32) -> tuple[Array, Array]:
    random = np.random.default_rng(count)
    x = random.standard_normal((count, *SHAPE)).astype(dtype)
    return x, random.integers(0, classes, count)


def with_biases(model: Sequential) -> Sequential:
    random = np.random.default_rng(5)
    state = model.state_dict()
    for name, value in state.items():
        if name.endswith("bias"):
            state[name] = random.standard_normal(value.shape)
    model.load_state_dict(state)
    return model


def test_classes_are_learnt(device: Device) -> None:
    """Which quarter of an image is bright."""
    random = np.random.default_rng(0)
    y = random.integers(0, 4, 96)
    x = random.standard_normal((96, 1, 4, 4)).astype(np.float32) / 2
    for image, side in zip(x, y, strict=True):
        image[0, 2 * (side // 2) :, 2 * (side % 2) :][:2, :2] += 2
    model = Sequential(Conv2d(1, 4, 2), ReLU(), Flatten(), Linear(36, 4), device=device)
    history = fit(
        model,
        x,
        y,
        loss="cross_entropy",
        optimizer=Adam(0.03),
        epochs=2 if device.interprets else 10,
        batch_size=32,
        validation=1 / 3,
    )
    told = pt.to_numpy(model(device.from_numpy(x[64:]))).argmax(1) == y[64:]
    assert history.validation_accuracy[-1] == told.mean()
    assert len(history.accuracy) == history.epochs
    assert told.mean() > (0.5 if device.interprets else 0.9)


def check_gradient(model: Sequential, loss: CrossEntropyLoss, tolerance: float) -> None:
    """What plain descent at a rate of 1 takes off, against differences of NumPy's loss."""
    classes = model.layers[-1].output_shape((model.layers[-1].fans()[0],))[0]
    x, y = batch(5, classes, model.dtype.numpy)
    x /= 4  # a larger gradient would overflow in half precision, and the step be left out
    before = {name: value.astype(float) for name, value in model.state_dict().items()}
    history = fit(model, x, y, loss=loss, optimizer=SGD(lr=1), epochs=1, batch_size=5)
    after = model.state_dict()
    smoothing = loss.label_smoothing

    def lost(state: numpy_layers.State) -> float:
        return numpy_layers.cross_entropy(
            numpy_layers.forward(model.layers, state, x), y, smoothing
        )

    assert history.train == pytest.approx([lost(before)], rel=tolerance)
    random = np.random.default_rng(1)
    for name, value in before.items():
        way = random.standard_normal(value.shape)
        sides = [lost({**before, name: value + step * way}) for step in (1e-6, -1e-6)]
        slope = float(((value - after[name]) * way).sum())
        assert slope == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=tolerance), name


def test_outputs_and_gradients_of_all_layers(device: Device) -> None:
    dtype, tolerance = ("float64", 1e-7) if device.capabilities.float64 else ("float32", 2e-5)
    model = with_biases(Sequential(*MIXED, dtype=dtype, device=device))
    x, _ = batch(5, 5, dtype)
    exact = numpy_layers.forward(MIXED, model.state_dict(), x)
    found = pt.to_numpy(model(device.from_numpy(x)))
    np.testing.assert_allclose(found, exact, rtol=0, atol=tolerance)
    check_gradient(model, CrossEntropyLoss(0.1), tolerance)


def test_gradients_in_half_precision(device: Device) -> None:
    model = Sequential(*PLAIN, dtype="float16", device=device)
    check_gradient(with_biases(model), CrossEntropyLoss(), 6e-3)


def test_perceptrons_tell_classes_too(device: Device) -> None:
    model = MLP([3, 5], device=device)
    x = np.array([[2, 0, 0], [0, 200, 0], [0, 0, -2]], np.float32)
    state = {"0.weight": np.eye(5, 3) * 1e3, "0.bias": np.zeros(5)}
    model.load_state_dict(state)
    history = fit(model, x, np.array([0, 1, 4]), loss="cross_entropy", epochs=1, batch_size=3)
    assert history.accuracy == [pytest.approx(2 / 3)]
    assert history.train == [pytest.approx(np.log(4) / 3, rel=1e-5)]  # four are equally greatest


def test_no_samples_views_and_reuse(device: Device) -> None:
    model = Sequential(Flatten(), Linear(4, 2), device=device)
    assert tuple(model(device.empty((0, 2, 2), model.dtype)).shape) == (0, 2)
    x = device.from_numpy(np.arange(16, dtype=np.float32).reshape(2, 2, 4))[:, :, ::2]
    out = device.from_numpy(np.zeros((2, 4), np.float32))
    again = model.prepare(x, out=out[:, ::2])
    again()
    exact = numpy_layers.forward(model.layers, model.state_dict(), device.to_numpy(x))
    assert np.allclose(device.to_numpy(out)[:, ::2], exact, atol=1e-4)
    copy = model.copy("simulator")
    assert all((v == copy.state_dict()[k]).all() for k, v in model.state_dict().items())


# -- what does not depend on a device -------------------------------------------------------------


def small(**given: Any) -> Sequential:
    return Sequential(*PLAIN, device="simulator", **given)


def test_networks_are_saved_with_their_layers(tmp_path: Path) -> None:
    path = tmp_path / "network.safetensors"
    layers = (Conv2d(1, 2, (1, 2), padding=(0, 1), groups=1, algorithm="direct"), AvgPool2d(2))
    model = Sequential(*layers, device="simulator", dtype="float16", seed=4)
    model.save(path, {"by": "me"})
    again = Sequential.load(path, device="simulator")
    assert again.layers == layers
    assert again.dtype is model.dtype
    assert (again.state_dict()["0.weight"] == model.state_dict()["0.weight"]).all()
    Sequential(Flatten(), device="simulator").save(path)
    assert Sequential.load(path, device="simulator").parameters() == []
    with pytest.raises(ModelFileError, match="no sizes and activation"):
        MLP.load(path, device="simulator")


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ("[" * 100_000, "no layers and dtype"),
        ("[]", "no list of layers"),
        ('["Flatten"]', "no layers and dtype"),
        ('[["Flatten", []]]', "no layers and dtype"),
        ('[["eval", {}]]', "no layers and dtype"),
        ('[["Linear", {"in_features": -1, "out_features": 2}]]', "expected a whole number from 1"),
        ('[["Linear", {"in_features": 1e99, "out_features": 2}]]', "in_features=1e\\+99"),
        ('[["Linear", {"in_features": 99999999, "out_features": 99999999}]]', "0.weight has shape"),
        ('[["Linear", {"in_features": 3, "out_features": 2, "bias": 7}]]', "bias=7"),
        ('[["Conv2d", {"in_channels": 3, "out_channels": 2, "kernel_size": "ab"}]]', "kernel_size"),
        ('[["Flatten", {}]]', "has no 0.bias, 0.weight"),
    ],
)
def test_files_that_name_other_layers_are_refused(tmp_path: Path, layers: str, words: str) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "hostile.safetensors"
    state = {"0.weight": np.zeros((2, 3), np.float32), "0.bias": np.zeros(2, np.float32)}
    save_file(state, path, {"layers": layers, "dtype": "float32"})
    with pytest.raises(ModelFileError, match=words) as caught:
        Sequential.load(path, device="simulator")
    assert str(path) in str(caught.value)


def test_files_whose_types_are_others_are_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "hostile.safetensors"
    layers = json.dumps([["Linear", {"in_features": 3, "out_features": 2, "bias": False}]])
    state = {"0.weight": np.full((2, 3), np.nan, np.float32)}
    for kind, words in (("float64", "it says float64"), ("int9", "it says int9")):
        save_file(
            {"0.weight": np.zeros((2, 3), np.float32)}, path, {"layers": layers, "dtype": kind}
        )
        with pytest.raises(ModelFileError, match=words):
            Sequential.load(path, device="simulator")
    save_file(state, path, {"layers": layers, "dtype": "float32"})
    with pytest.raises(ModelFileError, match=r"0\.weight hold NaN"):
        Sequential.load(path, device="simulator")


def test_shapes_that_do_not_fit_name_the_layer() -> None:
    model = small()
    for shape, words in (
        ((1, 3, 9, 8), r"layer 0, Conv2d\(in_channels=2.* images of shape \(1, 3, 9, 8\) have 3"),
        ((1, 2, 2, 8), "layer 0, .* larger than images of 2 x 8"),
        ((1, 2, 9, 12), r"layer 4, Linear\(in_features=27.* is given samples of shape \(45,\)"),
        ((1, 18, 8), r"layer 0, .* takes images \(channels, height, width\)"),
        ((), "x is a single number"),
    ):
        with pytest.raises(ShapeError, match=words):
            model(np.zeros(shape, np.float32))
    with pytest.raises(ShapeError, match=r"layer 1, Linear.*put Flatten\(\) before it"):
        Sequential(ReLU(), Linear(8, 2), device="simulator")(np.zeros((3, 2, 4), np.float32))
    with pytest.raises(ShapeError, match=r"out has shape \(1, 5\); .* gives \('n', 4\)"):
        model(np.zeros((1, *SHAPE), np.float32), out=np.zeros((1, 5), np.float32))
    with pytest.raises(DTypeError, match="x is float64, the network float32"):
        model(np.zeros((1, *SHAPE)))
    with pytest.raises(DeviceMismatchError, match="the network lives on simulator"):
        model([1.0])


def test_layers_that_make_no_sense_are_refused() -> None:
    for make, words in (
        (lambda: Linear(0, 3), r"Linear\(in_features=0\): expected a whole number from 1"),
        (lambda: Linear(3, True), "out_features=True"),
        (lambda: Linear(3, 2, bias=None), "bias=None"),  # type: ignore[arg-type]
        (lambda: Conv2d(3, 4, 3, groups=2), "groups=2 does not divide"),
        (lambda: Conv2d(3, 4, 0), "kernel_size=0"),
        (lambda: Conv2d(3, 4, 3, algorithm="vendor"), "algorithm='vendor'; there are auto"),
        (lambda: MaxPool2d(2, padding=2), "more than half a window"),
        (lambda: CrossEntropyLoss(2), "label_smoothing=2"),
        (lambda: Sequential(device="simulator"), "no layers"),
    ):
        with pytest.raises(ValueError, match=words):
            make()  # type: ignore[no-untyped-call]
    with pytest.raises(
        TypeError, match=r"layer 0 is <class .*ReLU'>; a Sequential is made of Linear"
    ):
        Sequential(ReLU, device="simulator")  # type: ignore[arg-type]


def test_samples_that_do_not_fit_a_classifier_are_refused() -> None:
    model = small()
    x, _ = batch(6, 4)
    y = np.array([0, 1, 2, 3, 0, 1])
    settings: Any = {"loss": "cross_entropy", "epochs": 1, "batch_size": 3}
    for wrong, error, words in (
        (np.eye(4)[y], DTypeError, r"give y.argmax\(1\)"),
        (y + 1, ValueError, "y has classes from .* to 4; .* tells those from 0 to 3"),
        (y - 9, ValueError, "y has classes from -"),
        (y[1:], ShapeError, "x has 6 rows and y 5"),
    ):
        with pytest.raises(error, match=words):
            fit(model, x, wrong, **settings)
    with pytest.raises(ShapeError, match=r"validation y has shape|layer 0"):
        fit(model, x, y, **settings, validation=(x[:, :1], y))
    with pytest.raises(ValueError, match="x holds an infinity"):
        fit(model, x * np.float32(np.inf), y, **settings)
    with pytest.raises(ShapeError, match=r"end the network with Flatten\(\) or Linear"):
        fit(Sequential(Conv2d(2, 3, 3), device="simulator"), x, y, **settings)
    with pytest.raises(ValueError, match="no parameters to train"):
        fit(Sequential(Flatten(), device="simulator"), x, y, **settings)
    with pytest.raises(ValueError, match="loss='cross'; there are mse, mae, huber, cross_entropy"):
        fit(model, x, y, loss="cross", epochs=1, batch_size=3)


def test_images_are_targets_too() -> None:
    with pt.use("simulator"):
        model = Sequential(Conv2d(2, 1, 1), device="simulator")
        x, _ = batch(4, 2)
        state = model.state_dict()
        exact = numpy_layers.forward(model.layers, state, x)
        history = fit(model, x, exact.astype(np.float32) + 3, epochs=1, batch_size=4)
    assert history.train == [pytest.approx(9, rel=1e-5)]


class _Nothing(Layer):
    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


class _OwnLinear(Linear):
    pass


def test_layers_that_say_nothing_of_how_they_are_worked_out_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"layer 1, .*derived from Layer alone"):
        Sequential(Linear(3, 2), _Nothing(), device="simulator")
    model = Sequential(_OwnLinear(3, 2), device="simulator")
    assert model(np.ones((1, 3), np.float32)).shape == (1, 2)
    with pytest.raises(UnsupportedError, match=r"your own \(_OwnLinear\) cannot be saved"):
        model.save(tmp_path / "a.safetensors")
