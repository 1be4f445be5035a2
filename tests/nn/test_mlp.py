"""Networks on every device: what they compute, what they refuse, how they are kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable
from portable.backend import Device
from portable.errors import DeviceMismatchError, DTypeError, ShapeError
from portable.nn import MLP, ModelFileError
from portable.nn.fused_parts import forward_shape
from tests.nn import numpy_network

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _in_use(device: Device) -> Iterator[None]:
    with portable.use(device):
        yield


@pytest.fixture(params=["one kernel", "layer by layer"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Networks run both ways, whatever their size."""
    if request.param == "layer by layer":
        monkeypatch.setattr("portable.nn.fused.forward_shape", lambda *given: None)
    return str(request.param)


def network(device: Device, sizes: list[int], dtype: str = "float32", **given: Any) -> MLP:
    if dtype == "float64" and not device.capabilities.float64:
        pytest.skip(f"{device.name} lacks double precision")
    model = MLP(sizes, device=device, dtype=dtype, seed=3, **given)
    random = np.random.default_rng(7)
    state = {k: v if v.ndim == 2 else random.normal(size=v.shape) for k, v in state_of(model)}
    model.load_state_dict(state)
    return model


def state_of(model: MLP) -> list[tuple[str, Array]]:
    return list(model.state_dict().items())


def normal(shape: tuple[int, ...], dtype: str = "float32") -> Array:
    return np.random.default_rng(list(shape)).standard_normal(shape).astype(dtype)


def allowed(model: MLP, x: Array) -> Array:
    """A bound of the rounding errors, layer after layer."""
    unit = 2.0 ** {"float16": -11, "float32": -24, "float64": -53}[model.dtype.name]
    state = model.state_dict()
    size, error = abs(x.astype(float)), np.zeros(x.shape)
    for i, (inputs, _) in enumerate(pairwise(model.sizes)):
        weight, bias = abs(state[f"{2 * i}.weight"].astype(float)), abs(state[f"{2 * i}.bias"])
        size, error = size @ weight.T + bias, error @ weight.T
        error = error + 4 * unit * (inputs + 4) * size
    return error


# -- forward ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "sizes", "dtype", "activation", "count"),
    [
        ("one kernel", [10, 20, 5], "float32", "relu", 70),
        ("one kernel", [10, 20, 5], "float64", "tanh", 33),
        ("one kernel", [4, 6, 3], "float16", "relu", 33),
        ("one kernel", [1, 1], "float32", "relu", 1),
        ("one kernel", [3, 7, 9, 5, 2], "float32", "sigmoid", 19),
        ("layer by layer", [10, 20, 5], "float32", "relu", 33),
    ],
    indirect=["path"],
)
def test_outputs_are_right(
    device: Device, path: str, sizes: list[int], dtype: str, activation: str, count: int
) -> None:
    model = network(device, sizes, dtype, activation=activation)
    x = normal((count, sizes[0]), dtype)
    found = model(device.from_numpy(x))
    assert device.owns(found)
    exact, _, _ = numpy_network.forward(model.state_dict(), x.astype(float), activation)
    host = device.to_numpy(found)
    assert host.dtype == x.dtype
    assert (abs(host - exact) <= allowed(model, x)).all()


def test_weights_are_transposed_for_many_samples(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def transposes(*given: Any) -> bool:
        asked.append(given)
        return True

    monkeypatch.setattr("portable.nn.stages.linear._transposes", transposes)
    monkeypatch.setattr("portable.nn.fused.forward_shape", lambda *given: None)
    model = network(device, [70, 40])
    x = normal((5, 70))
    exact, _, _ = numpy_network.forward(model.state_dict(), x.astype(float), "relu")
    found = device.to_numpy(model(device.from_numpy(x)))
    assert (abs(found - exact) <= allowed(model, x)).all()
    assert len(asked) == 1


def test_views_go_in_and_out(device: Device) -> None:
    model = network(device, [4, 6, 3])
    base = device.from_numpy(normal((20, 8)))
    out = device.from_numpy(np.zeros((10, 6), np.float32))
    returned = model(base[::2, 4:], out=out[:, ::2])
    host = device.to_numpy(out)
    assert device.to_numpy(returned).shape == (10, 3)
    expected = device.to_numpy(model(device.from_numpy(normal((20, 8))[::2, 4:].copy())))
    np.testing.assert_allclose(host[:, ::2], expected, rtol=1e-5, atol=1e-6)
    assert (host[:, 1::2] == 0).all()


def test_no_samples_give_no_outputs(device: Device, path: str) -> None:
    model = network(device, [4, 6, 3])
    assert tuple(model(device.empty((0, 4), model.dtype)).shape) == (0, 3)


def test_a_prepared_pass_reads_its_inputs_anew(device: Device, path: str) -> None:
    model = network(device, [4, 6, 3])
    x, out = device.from_numpy(normal((5, 4))), device.empty((5, 3), model.dtype)
    run = model.prepare(x, out=out)
    x[...] = device.from_numpy(2 * normal((5, 4)))
    run()
    expected = model(device.from_numpy(2 * normal((5, 4))))
    assert np.array_equal(device.to_numpy(out), device.to_numpy(expected))


def test_nan_stays_nan(device: Device, path: str) -> None:
    model = network(device, [2, 3, 1])
    x = normal((6, 2))
    x[4, 1] = np.nan
    found = device.to_numpy(model(device.from_numpy(x)))
    assert np.isnan(found[:, 0]).tolist() == [False, False, False, False, True, False]


def test_what_is_too_large_goes_layer_by_layer(device: Device) -> None:
    model = MLP([10, 20, 5], device=device)
    large = MLP([300, 300, 300], device=device)
    kind, can = model.dtype, device.capabilities
    assert forward_shape(can, model.layout, model.sizes, kind, 1024) is not None
    assert forward_shape(can, large.layout, large.sizes, kind, 1024) is None


# -- what is refused -----------------------------------------------------------------------------


def test_inputs_that_do_not_fit_are_refused(device: Device) -> None:
    model = network(device, [4, 6, 3])
    with pytest.raises(ShapeError, match=r"x has shape \(5, 3\).*takes \(n, 4\)"):
        model(device.from_numpy(normal((5, 3))))
    with pytest.raises(ShapeError, match=r"x has shape \(4,\)"):
        model(device.from_numpy(normal((4,))))
    with pytest.raises(DTypeError, match="x is float16, the network float32"):
        model(device.from_numpy(normal((5, 4), "float16")))
    with pytest.raises(ShapeError, match="out has 4 rows, x 5"):
        model(device.from_numpy(normal((5, 4))), out=device.empty((4, 3), model.dtype))


def test_inputs_of_another_device_are_refused(device: Device) -> None:
    model = network(device, [4, 6, 3])
    other = "cpu:native-arrays" if device.interprets else "simulator"
    with pytest.raises(DeviceMismatchError, match=r"move it with portable\.asarray"):
        model(portable.xp(other).zeros((5, 4), dtype=portable.xp(other).float32))


def test_outputs_over_inputs_are_refused(device: Device) -> None:
    model = network(device, [4, 4])
    x = device.from_numpy(normal((5, 4)))
    with pytest.raises(ShapeError, match="overlaps"):
        model(x, out=x)


def test_networks_that_make_no_sense_are_refused(device: Device) -> None:
    with pytest.raises(ShapeError, match="give the widths"):
        MLP([10], device=device)
    for sizes in ([10, 0, 1], [10, 2.5, 1], "abc", None):
        with pytest.raises(ShapeError, match="each a whole number from 1"):
            MLP(sizes, device=device)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed=-1"):
        MLP([10, 1], seed=-1, device=device)
    with pytest.raises(ValueError, match=r"activation=\['relu'\]; there are relu"):
        MLP([10, 1], activation=["relu"], device=device)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there are relu, tanh, sigmoid"):
        MLP([10, 1], activation="gelu", device=device)
    with pytest.raises(ValueError, match="there are xavier, he, uniform"):
        MLP([10, 1], init="zeros", device=device)
    with pytest.raises(DTypeError, match="not int32"):
        MLP([10, 1], dtype="int32", device=device)


# -- parameters ---------------------------------------------------------------------------------


def test_initial_weights_are_the_same_everywhere(device: Device) -> None:
    here = MLP([10, 64, 1], device=device, seed=5).state_dict()
    there = MLP([10, 64, 1], device="simulator", seed=5).state_dict()
    assert all(np.array_equal(here[name], there[name]) for name in there)
    assert not np.array_equal(here["0.weight"], MLP([10, 64, 1], seed=6).state_dict()["0.weight"])


def test_initial_weights_lie_in_their_range(device: Device) -> None:
    xavier = MLP([10, 64, 1], device=device).state_dict()
    uniform = MLP([10, 64, 1], device=device, init="uniform").state_dict()
    limit = (6 / 74) ** 0.5
    assert 0.9 * limit < abs(xavier["0.weight"]).max() <= limit
    assert 0.95 < abs(uniform["0.weight"]).max() <= 1
    assert (xavier["0.bias"] == 0).all()


def test_parameters_are_named_as_in_a_sequential(device: Device) -> None:
    model = MLP([10, 20, 5], device=device)
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    assert shapes == {
        "0.weight": (20, 10),
        "0.bias": (20,),
        "2.weight": (5, 20),
        "2.bias": (5,),
    }
    assert [tuple(p.shape) for p in model.parameters()] == list(shapes.values())


def test_parameters_are_no_copies(device: Device) -> None:
    model = MLP([2, 3, 1], device=device)
    model.parameters()[0][...] = device.from_numpy(np.ones((3, 2), np.float32))
    assert (model.state_dict()["0.weight"] == 1).all()


def test_states_that_do_not_fit_change_nothing(device: Device) -> None:
    model = MLP([2, 3, 1], device=device)
    before = model.state_dict()
    wrong = dict(before, **{"2.bias": np.zeros(2)})
    with pytest.raises(ShapeError, match=r"2\.bias has shape \(2,\)"):
        model.load_state_dict(wrong)
    wrong["4.bias"] = wrong.pop("2.bias")
    with pytest.raises(ShapeError, match=r"missing: 2\.bias, unknown: 4\.bias"):
        model.load_state_dict(wrong)
    assert all(np.array_equal(model.state_dict()[name], before[name]) for name in before)


# -- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_files_bring_networks_back(device: Device, tmp_path: Path, dtype: str) -> None:
    model = network(device, [3, 5, 2], dtype, activation="tanh")
    model.save(tmp_path / "model.safetensors")
    again = MLP.load(tmp_path / "model.safetensors", device=device)
    assert (again.sizes, again.activation, again.dtype) == ((3, 5, 2), "tanh", model.dtype)
    for name, value in state_of(model):
        assert np.array_equal(again.state_dict()[name], value)
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_folder_that_is_not_there_is_named(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "no" / "model.safetensors"
    with pytest.raises(FileNotFoundError) as caught:
        MLP([2, 1], device=device).save(path)
    assert caught.value.filename == str(path)


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError("no space left on device")

    path = tmp_path / "model.safetensors"
    path.write_bytes(b"old")
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        MLP([2, 1], device=device).save(path)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]


def test_damaged_files_are_refused(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    MLP([2, 3, 1], device=device).save(path)
    whole = path.read_bytes()
    for damaged in (b"", whole[:20], whole[:-8], b"\xff" * 64):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="damaged"):
            MLP.load(path, device=device)
    with pytest.raises(FileNotFoundError):
        MLP.load(tmp_path / "absent", device=device)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_parameters_that_are_not_finite_are_told(
    device: Device, tmp_path: Path, bad: float
) -> None:
    path = tmp_path / "model.safetensors"
    model = MLP([2, 3, 1], device=device)
    state = model.state_dict()
    state["2.weight"][0, 1] = bad
    with pytest.warns(UserWarning, match="holds NaN, infinities"):
        model.load_state_dict(state)
    model.save(path)
    with pytest.raises(ModelFileError, match=r"2\.weight hold NaN or infinities"):
        MLP.load(path, device=device)
    again = MLP.load(path, device=device, check_finite=False)
    assert np.array_equal(again.state_dict()["2.weight"], state["2.weight"], equal_nan=True)


def test_files_of_other_things_are_refused(device: Device, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "other.safetensors"
    state = MLP([2, 3, 1], device=device).state_dict()
    save_file(state, path)
    with pytest.raises(ModelFileError, match="no sizes and activation"):
        MLP.load(path, device=device)
