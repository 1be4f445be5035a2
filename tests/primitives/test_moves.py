"""Copies, maps, sorts, and what is taken and kept, on arrays of every library."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import primitives
from portable.backend import Device
from portable.errors import BadIndexError, DTypeError, ShapeError
from tests.primitives.test_reduce import on, values


class Point(NamedTuple):
    x: Any
    y: Any


class Polar(NamedTuple):
    size: Any
    upper: Any


@pt.function
def polar(point):
    return Polar(kl.sqrt(point.x * point.x + point.y * point.y), point.y > 0)


@pt.function
def numbered(x, place):
    return x + kl.cast(place, kl.f32)


@pt.function
def positive(x):
    return x > 0


@pytest.mark.parametrize("size", [0, 1, 777, 9001])
def test_map_and_compact(device: Device, size: int) -> None:
    x, y = values(size), values(size)[::-1].copy()
    points = Point(on(device, x), on(device, y))
    found = primitives.map(polar, points, dtype=Polar("float32", "bool"))
    np.testing.assert_allclose(pt.to_numpy(found.size), np.hypot(x, y), rtol=1e-5)
    kept = primitives.compact(points, found.upper)
    assert (pt.to_numpy(kept.x) == x[y > 0]).all()
    assert (pt.to_numpy(kept.y) == y[y > 0]).all()
    assert (pt.to_numpy(primitives.compact(points.x, positive)) == x[x > 0]).all()
    counted = pt.to_numpy(primitives.map(numbered, points.x))
    assert (counted == x + np.arange(size, dtype=np.float32)).all()


def test_compact_of_several_dimensions(device: Device) -> None:
    x = values(30, 40)
    mask = x > 20
    turned = primitives.transpose(on(device, x))
    assert (pt.to_numpy(turned) == x.T).all()
    assert (pt.to_numpy(primitives.compact(turned, on(device, mask.T))) == x.T[mask.T]).all()
    with pytest.raises(ShapeError, match="by a mask of shape"):
        primitives.compact(turned, on(device, mask))
    with pytest.raises(DTypeError, match="bools"):
        primitives.compact(turned, turned)


@pytest.mark.parametrize("shape", [(0,), (1,), (5000,), (3, 41), (40, 3)])
def test_sorts(device: Device, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    # Positions that sorting gives are in range: nobody is to wait for a device that says so.
    monkeypatch.delattr("portable.primitives.moves.gathering.check_flag")
    x = values(*shape)
    for axis in range(len(shape)):
        got = primitives.sort(on(device, x), axis=axis)
        assert (pt.to_numpy(got) == np.sort(x, axis)).all()
        order = primitives.argsort(on(device, x), axis=axis)
        assert (pt.to_numpy(order) == np.argsort(x, axis, stable=True)).all()
        places = np.broadcast_to(np.arange(x.size, dtype=np.int32).reshape(shape), shape).copy()
        keys, moved = primitives.sort_by_key(on(device, x), on(device, places), axis=axis)
        assert (pt.to_numpy(keys) == np.sort(x, axis)).all()
        want = np.take_along_axis(places, np.argsort(x, axis, stable=True), axis)
        assert (pt.to_numpy(moved) == want).all()
        least = primitives.topk(on(device, x), shape[axis] // 2, axis=axis, largest=False)
        half = (*((slice(None),) * axis), slice(shape[axis] // 2))
        assert (pt.to_numpy(least.values) == np.sort(x, axis)[half]).all()
        assert (pt.to_numpy(least.indices) == np.argsort(x, axis, stable=True)[half]).all()


def test_gather_and_scatter(device: Device) -> None:
    x = values(50, 4)
    index = np.array([3, -1, 0, 3], np.int32)
    given = on(device, x)
    assert (pt.to_numpy(primitives.gather(given, on(device, index))) == x[index]).all()
    across = primitives.gather(given, on(device, index[:2]), axis=1)
    assert (pt.to_numpy(across) == x[:, index[:2]]).all()
    new = values(2, 4)
    assert primitives.scatter(given, on(device, index[:2]), on(device, new)) is given
    x[index[:2]] = new
    assert (pt.to_numpy(given) == x).all()
    primitives.scatter(given, on(device, index[2:]), 7)
    x[index[2:]] = 7
    assert (pt.to_numpy(given) == x).all()
    with pytest.raises(BadIndexError, match="50 is out of range"):
        primitives.gather(given, on(device, np.array([1, 50])))


def test_copies_and_fills(device: Device) -> None:
    x = values(20, 30)
    given = on(device, x)
    assert (pt.to_numpy(primitives.copy(given)) == x).all()
    out = on(device, np.zeros((20, 30), np.int16))
    assert primitives.copy(given, out) is out
    assert (pt.to_numpy(out) == x).all()
    primitives.fill(out, 3)
    assert (pt.to_numpy(out) == 3).all()


def test_captured_fills_copy_nothing_from_the_host(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph would copy it again from memory that is let go by then."""
    out = device.empty((20,), pt.dtypes.float32)
    with monkeypatch.context() as refusing:
        refusing.setattr(type(device), "from_numpy", None)
        again = device.replay(lambda: primitives.fill(out, 3))
        for _ in range(3):  # the first may go without a graph
            primitives.fill(out, np.float64(0.1))
            assert (pt.to_numpy(out) == np.float32(0.1)).all()
            again()
            assert (pt.to_numpy(out) == 3).all()


@pytest.mark.needs_processor
def test_memory_of_numpy() -> None:
    x = np.arange(24, dtype=np.float32)
    primitives.copy(x[:12], x[6:18])  # overlapping
    assert (x[6:18] == np.arange(12)).all()
    wide = np.zeros((4, 6), np.float32)
    primitives.copy(x[:12].reshape(4, 3)[:, ::-1], wide[:, 1:4])
    assert (wide[:, 1:4] == x[:12].reshape(4, 3)[:, ::-1]).all()
    assert not wide[:, 0].any()
    assert not wide[:, 4:].any()
    primitives.fill(wide[::2, ::-2], 5)
    assert (wide[::2, 1::2] == 5).all()
