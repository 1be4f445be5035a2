"""NumPy's arrays run on the device that was chosen, and what was written comes back."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import conv, linalg, nn, primitives
from portable import lang as kl
from portable.backend import Device
from portable.errors import DeviceMismatchError, LaunchError
from portable.system import console


@dataclass(frozen=True)
class Pair:
    first: Any
    second: Any


@pt.kernel
def saxpy(a, x, y):
    y[kl.global_id(0)] += a * x[kl.global_id(0)]


@pt.kernel
def exchange(pair):
    i = kl.global_id(0)
    pair.first[i], pair.second[i] = pair.second[i], pair.first[i]


@pt.kernel
def move_on(x, out):
    out[kl.global_id(0)] = 2 * x[kl.global_id(0)]


@pt.kernel
def clear(x):
    x[kl.global_id(1), kl.global_id(0)] = 0


@pt.function
def _swapped(pair):
    return Pair(pair.second, pair.first)


@pytest.fixture(autouse=True)
def _chosen(device: Device) -> Iterator[None]:
    with pt.use(device):
        yield


def launched_on(device: Device, work: Any) -> set[str]:
    """The devices that launched something."""
    with pt.profile() as profile:
        work()
    return {span.device for span in profile.spans if span.entry.kind == "launch"}


def test_launches_run_where_it_was_chosen(device: Device) -> None:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    before = x.copy()
    for _ in range(6):  # as often as a launch has to be repeated to be recognised
        assert launched_on(device, lambda: saxpy[1000](2.0, x, y)) == {device.name}
    np.testing.assert_array_equal(y, 1 + 12 * x)
    np.testing.assert_array_equal(x, before)


def test_structs_and_constants_are_taken(device: Device) -> None:
    x, y = np.arange(9.0, dtype=np.float32), np.zeros(9, np.float32)
    exchange[9](Pair(x, y))
    assert not x.any()
    assert y.tolist() == [*range(9)]


def test_views_of_one_array_overlap_there_too(device: Device) -> None:
    whole = np.arange(100, dtype=np.int32)
    move_on[50](whole[1::2], whole[::2])
    assert whole[::2].tolist() == [*range(2, 202, 4)]
    assert whole[1::2].tolist() == [*range(1, 100, 2)]
    both = np.arange(64, dtype=np.float32)
    exchange[16](Pair(both[:16], both[31:15:-1]))
    assert both[:16].tolist() == [*range(31, 15, -1)]
    assert both[16:32].tolist() == [*range(15, -1, -1)]
    assert both[32:].tolist() == [*range(32, 64)]


def test_elements_beside_a_view_stay(device: Device) -> None:
    whole = np.ones((70, 90), np.float64 if device.capabilities.float64 else np.float32)
    clear[(3, 70), None](whole[:, 40:43])
    assert not whole[:, 40:43].any()
    assert whole.sum() == 70 * 87
    clear[(90, 2), None](whole[::-35])
    assert not whole[[69, 34]].any()


@pytest.mark.filterwarnings("ignore:i64 value stored in i16")
def test_odd_alignments(device: Device) -> None:
    raw = np.ones(120, np.uint8)
    x, y = raw[3:103], raw[48:88].view(np.int16)
    saxpy[20](3, x, y)
    assert y.tolist() == [260] * 20
    assert raw[:48].tolist() == [1] * 48
    assert raw[88:].tolist() == [1] * 32


def test_read_only_arrays_are_read_and_refused_for_writing(device: Device) -> None:
    x = np.broadcast_to(np.float32(3), (10,))
    y = np.zeros(10, np.float32)
    saxpy[10](1.0, x, y)
    assert y.tolist() == [3] * 10
    with pytest.raises(LaunchError, match="read-only"):
        saxpy[10](1.0, y, x)


def test_prepared_launches_copy_each_time(device: Device) -> None:
    x, y = np.ones(10, np.float32), np.zeros(10, np.float32)
    launch = saxpy[10].prepare(1.0, x, y)
    launch()
    x[:] = 5
    launch()
    assert y.tolist() == [6] * 10


def test_profiles_show_the_copies(device: Device) -> None:
    x, y = np.ones(1 << 12, np.float32), np.ones(1 << 12, np.float32)
    saxpy[x.size](1.0, x, y)
    with pt.profile() as profile:
        saxpy[x.size](1.0, x, y)
    copied = [s.entry.nbytes for s in profile.spans if s.entry.nbytes]
    in_place = device.owns(x) or device.in_place(x) is not None
    assert sum(copied) == (0 if in_place else 3 * x.nbytes)


def test_arrays_of_two_devices_are_refused(device: Device) -> None:
    there = pt.xp(device).ones(4, dtype=pt.xp(device).float32)
    if isinstance(there, np.ndarray) or device.interprets:
        pytest.skip(f"{device.name} has NumPy's arrays")
    with pytest.raises(DeviceMismatchError):
        saxpy[4](1.0, there, np.ones(4, np.float32))


@pytest.mark.needs_namespace
def test_operations_run_there_and_give_numpys_arrays(device: Device) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((48, 48)).astype(np.float32) for _ in range(2))
    out = np.zeros((48, 48), np.float32)
    found = linalg.gemm(a, b.T)
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, a @ b.T, atol=1e-4)
    assert linalg.gemm(a, a.T, out=out) is out
    np.testing.assert_allclose(out, a @ a.T, atol=1e-4)
    product = linalg.prepare_gemm(a, b, out=out)
    product()
    np.testing.assert_allclose(out, a @ b, atol=1e-4)
    values = linalg.svdvals(a)
    assert type(values) is np.ndarray
    np.testing.assert_allclose(values, np.linalg.svd(a, compute_uv=False), atol=1e-4)
    ordered = primitives.sort(a[:, ::3], axis=0)
    assert type(ordered) is np.ndarray
    np.testing.assert_array_equal(ordered, np.sort(a[:, ::3], axis=0))
    total = primitives.reduce(a, kl.add, neutral=0.0)
    np.testing.assert_allclose(total, a.sum(), atol=1e-3)
    filled = np.zeros((5, 7), np.float32)
    assert primitives.fill(filled, 2.0) is filled or filled.any()
    assert (filled == 2).all()
    fused = pt.fuse(lambda x, y: np.sqrt(x * x + y * y))(a, b)
    assert type(fused) is np.ndarray
    np.testing.assert_allclose(fused, np.hypot(a, b), rtol=1e-5)


@pytest.mark.needs_namespace
def test_convolutions_run_there(device: Device) -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((1, 3, 8, 8)).astype(np.float32)
    w = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    found = conv.conv2d(x, w)
    assert type(found) is np.ndarray
    with pt.use("cpu"):
        np.testing.assert_allclose(found, conv.conv2d(x, w), atol=1e-4)


@pytest.mark.needs_namespace
def test_prepared_convolutions_live_there(device: Device) -> None:
    rng = np.random.default_rng(7)
    x = rng.standard_normal((2, 3, 9, 9)).astype(np.float32)
    w, bias = rng.standard_normal((4, 3, 3, 3)).astype(np.float32), np.zeros(4, np.float32)
    plan = conv.prepare(x.shape, w, bias=bias)
    assert plan.device is device
    plain = plan(x)
    bias[:] = [1, 2, 3, 4]  # which is read at each call
    out = np.zeros(plan.result_shape, np.float32)
    assert plan(x, out=out) is out
    assert type(plain) is np.ndarray
    np.testing.assert_allclose(out, plain + bias[:, None, None], atol=1e-4)
    images, there = device.from_numpy(x), device.from_numpy(out)
    again = plan.prepare(images, out=there)
    for factor in (3, 2, 1):  # the second call is the one that devices may capture
        bias[:] = factor
        again()
        np.testing.assert_allclose(device.to_numpy(there), plain + factor, atol=1e-4)


@pytest.mark.needs_namespace
def test_networks_take_them(device: Device) -> None:
    rng = np.random.default_rng(8)
    x = rng.standard_normal((33, 6)).astype(np.float32)
    for model in (
        nn.MLP([6, 5, 2], activation="tanh"),
        nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)),
    ):
        first, inner, last, outer = model.state_dict().values()
        expected = np.tanh(x @ first.T + inner) @ last.T + outer
        found = model(x)
        assert type(found) is np.ndarray
        np.testing.assert_allclose(found, expected, atol=1e-5)
        out = np.zeros((33, 2), np.float32)
        assert model(x, out=out) is out
        np.testing.assert_array_equal(out, found)
        again = model.prepare(x, out=out)
        kept = x.copy()
        x[:] = 0
        again()
        assert (out == out[0]).all()
        x[:] = kept
        again()
        np.testing.assert_allclose(out, expected, atol=1e-5)


@pytest.mark.needs_namespace
def test_random_choices_are_made_there(device: Device) -> None:
    x, p = np.arange(100, dtype=np.float32), np.full(100, 0.01, np.float32)
    for generator in (pt.random.Generator(5), pt.random.Generator(5, device=device)):
        mixed = generator.permutation(x)
        assert type(mixed) is np.ndarray
        assert sorted(mixed.tolist()) == x.tolist()
        drawn = generator.choice(x, (4, 5), p=p)
        assert type(drawn) is np.ndarray
        assert drawn.shape == (4, 5)
        assert set(drawn.ravel().tolist()) <= set(x.tolist())
        few = generator.choice(x, 50, replace=False)
        assert len(set(few.tolist())) == 50
    assert x.tolist() == [*range(100)]


def test_read_only_results_are_refused(device: Device) -> None:
    x = np.arange(10, dtype=np.float32)
    x.flags.writeable = False
    with pytest.raises(LaunchError, match="read-only"):
        primitives.fill(x, 3)
    assert x.tolist() == [*range(10)]
    assert primitives.copy(x).tolist() == [*range(10)]


def test_structs_of_arrays_go_there(device: Device) -> None:
    pair = Pair(np.arange(1000, dtype=np.int32), np.ones(1000, np.int32))
    found = primitives.map(_swapped, pair, dtype=Pair("int32", "int32"))
    assert type(found.first) is np.ndarray
    assert found.second.tolist() == [*range(1000)]
    assert found.first.tolist() == [1] * 1000


def test_one_notice_tells_how_to_spare_it(device: Device) -> None:
    x, y = np.ones(10, np.float32), np.zeros(10, np.float32)
    console._told.discard("copies of NumPy's arrays")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            saxpy[10](1.0, x, y)
    in_place = device.owns(x) or device.in_place(x) is not None
    assert len(caught) == (0 if in_place else 1)
    assert in_place or f"portable.asarray(x, device='{device.name}')" in str(caught[0].message)


@pytest.mark.needs_namespace
def test_one_rule_of_copies(device: Device) -> None:
    """A device's own arrays are themselves, unless a copy is asked for; NumPy's are cpu's."""
    xp = pt.xp(device)
    host = np.arange(5, dtype=np.float32)
    own = xp.asarray(host)
    assert xp.asarray(own) is own
    assert pt.asarray(own, device=device) is own
    another = xp.asarray(own, copy=True)
    another[0] = 7
    assert pt.to_numpy(own)[0] == 0
    assert (own is host) == isinstance(own, np.ndarray)
    copied = xp.asarray(host, copy=True)
    copied[1] = 9
    pt.to_numpy(own)[2] = 9
    assert pt.to_numpy(own).tolist() == host.tolist() == [*range(5)]


_PROGRAM = """
import numpy as np
import portable as pt
from tests.test_host_arrays import saxpy

x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
with pt.profile() as profile:
    saxpy[y.size, 256](2.0, x, y)
assert (y == 2).all()
print({s.device for s in profile.spans if s.entry.kind == "launch"})
"""


def _devices_that_ran() -> str:
    """What a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_variable_chooses(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_BACKEND", device.name)
    assert _devices_that_ran() == repr({device.name})


@pytest.mark.needs_processor
def test_where_nothing_is_chosen_it_is_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORTABLE_BACKEND", raising=False)
    with pt.use("cpu"):
        name = pt.device("cpu").name
    assert _devices_that_ran() == repr({name})
