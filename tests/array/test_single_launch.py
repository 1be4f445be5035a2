"""Functions that do in one launch, or a recipe of a few, what other functions put together do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable
import portable.array as xp
from portable.backend import Device
from portable.errors import DTypeError, ShapeError

RNG = np.random.default_rng(0)


def check(found: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(portable.to_numpy(found), wanted)


@pytest.mark.parametrize("kind", ["f4", "i2", "c8"])
def test_cross_products(ours: Device, kind: str) -> None:
    a = RNG.integers(-9, 9, (5, 3, 4)).astype(kind)
    b = RNG.integers(-9, 9, (3, 1)).astype(kind)
    x, y = ours.from_numpy(a), ours.from_numpy(b)
    check(xp.linalg.cross(x, y, axis=-2), np.cross(a, np.broadcast_to(b, a.shape), axis=-2))
    check(xp.linalg.cross(x.mT, x.mT), 0 * a.transpose(0, 2, 1))
    check(xp.linalg.cross(x[:0], y, axis=-2), a[:0])


def test_cross_products_promote_and_are_refused(simulated: Device) -> None:
    x = xp.ones((2, 3), dtype=xp.float32, device=simulated)
    assert xp.linalg.cross(x, xp.astype(x, xp.float64)).dtype is xp.float64
    with pytest.raises(ShapeError, match="extent 3"):
        xp.linalg.cross(x, x, axis=0)
    with pytest.raises(DTypeError, match="bool"):
        xp.linalg.cross(x > 0, x > 0)


@pytest.mark.parametrize(
    ("shift", "axis"),
    [
        (3, None),
        (-25, None),
        (2, 0),
        ((1, 2), (0, 2)),
        ((1, -1), (1, 1)),
        (0, 1),
        ((), ()),
        (7, -1),
    ],
    ids=str,
)
def test_roll(simulated: Device, shift: Any, axis: Any) -> None:
    a = RNG.integers(-9, 9, (5, 3, 4)).astype("i2")
    x = simulated.from_numpy(a)
    check(xp.roll(x, shift, axis=axis), np.roll(a, shift, axis=axis))
    turned = xp.permute_dims(x, (2, 1, 0))
    check(xp.roll(turned, shift, axis=axis), np.roll(a.transpose(2, 1, 0), shift, axis=axis))
    check(xp.roll(x[:0], shift, axis=axis), np.roll(a[:0], shift, axis=axis))


@pytest.mark.parametrize("shape", [(1, 1), (5, 9), (33, 40), (3, 20001), (0, 4), (4, 0)], ids=str)
@pytest.mark.parametrize("k", [0, 1, -2, 30, 2**40, -(2**40)])
def test_eye(ours: Device, shape: tuple[int, int], k: int) -> None:
    far = max(-100000, min(k, 100000))
    check(xp.eye(*shape, k=k, dtype=xp.float32, device=ours), np.eye(*shape, k=far, dtype="f4"))


@pytest.mark.parametrize("kind", ["bool", "int8", "float16", "complex64"])
def test_eye_of_dtypes(ours: Device, kind: str) -> None:
    check(xp.eye(20, 35, k=3, dtype=kind, device=ours), np.eye(20, 35, k=3, dtype=kind))


def test_numbers_chosen_by_a_condition(ours: Device) -> None:
    a = RNG.random(50) < 0.5
    x = ours.from_numpy(a)
    check(xp.where(x, 1, 2), np.where(a, 1, 2))
    check(xp.where(x, True, False), a)
    assert xp.where(x, 1.5, 2.0).dtype.kind == "f"
    check(xp.where(x, 1.5, -0.0), np.where(a, 1.5, -0.0))
    check(xp.where(x, 1, 2.0), np.where(a, 1, 2.0))


@pytest.mark.parametrize("count", [1, 2, 5, 1000, 20001])
def test_linspace_ends_where_it_should(ours: Device, count: int) -> None:
    for endpoint in (True, False):
        found = xp.linspace(1, 5.7, count, endpoint=endpoint, dtype=xp.float32, device=ours)
        wanted = np.linspace(1, 5.7, count, endpoint=endpoint, dtype="f4")
        np.testing.assert_allclose(portable.to_numpy(found), wanted, 1e-6)
        if endpoint and count > 1:
            assert float(found[count - 1]) == np.float32(5.7)


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "uint64"])
@pytest.mark.parametrize(
    "ends", [(0, 100, 1000), (3.5, -7, 23), (9, 2.5, 1), (0, 2**62, 9)], ids=str
)
def test_linspace_of_integers_is_rounded_down(ours: Device, kind: str, ends: Any) -> None:
    first, last, count = ends
    first, last = max(first, 0) if kind[0] == "u" else first, abs(last) if kind[0] == "u" else last
    last = min(last, 100) if kind != "int64" and kind != "uint64" else last
    for endpoint in (True, False):
        found = xp.linspace(first, last, count, endpoint=endpoint, dtype=kind, device=ours)
        check(found, np.linspace(first, last, count, endpoint=endpoint, dtype=kind))


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_linspace_of_complex_numbers(ours: Device, kind: str) -> None:
    for first, last, count in ((0, 1000j, 1000), (1 + 2j, 5.7 - 3j, 37), (2j, 7, 1), (1, 2, 0)):
        for endpoint in (True, False):
            found = xp.linspace(first, last, count, endpoint=endpoint, dtype=kind, device=ours)
            wanted = np.linspace(first, last, count, endpoint=endpoint, dtype=kind)
            check(found, wanted)


@pytest.mark.parametrize("shape", [(1000,), (10, 30), (3, 70, 100)], ids=str)
def test_pieces_are_copied_together(ours: Device, shape: tuple[int, ...]) -> None:
    """As many of them, and as large, as take one launch and more."""
    a = [np.full(shape, n, ("f4", "f4", "f8", "f4", "f4", "f8")[n]) for n in range(6)]
    x = [ours.from_numpy(part) for part in a]
    for count in (1, 2, 4, 5, 6):
        for axis in range(-len(shape), len(shape) + 1):
            if axis < len(shape):
                wanted = np.concatenate(a[:count], axis)
                check(xp.concat(x[:count], axis=axis), wanted)
            same = [xp.astype(part, xp.float64) for part in x[:count]]
            check(xp.stack(same, axis=axis), np.stack([p.astype("f8") for p in a[:count]], axis))
    check(xp.concat([x[0].mT, x[3]] if len(shape) > 1 else x, axis=None)[:1], a[0].reshape(-1)[:1])
    with pytest.raises(ShapeError, match="concat of"):
        xp.concat([x[0], xp.reshape(x[1], (-1, 1, 1, 1))], axis=0)


@pytest.mark.parametrize("axis", [(0, 2), (0, 1), (1, 2), 0, 1], ids=str)
def test_variances_of_axes_apart(ours: Device, axis: Any) -> None:
    a = (RNG.standard_normal((21, 9, 80)) + 100).astype(np.float32)
    found = portable.to_numpy(xp.var(ours.from_numpy(a), axis=axis))
    np.testing.assert_allclose(found, np.var(a.astype(np.float64), axis=axis), 1e-4)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_differences(simulated: Device, n: int) -> None:
    a = RNG.integers(-9, 9, (4, 6)).astype("i4")
    x = simulated.from_numpy(a)
    for axis in (0, 1):
        check(xp.diff(x, n=n, axis=axis), np.diff(a, n=n, axis=axis))
        found = xp.diff(x, n=n, axis=axis, prepend=x, append=x[:1, :] if axis == 0 else x[:, :1])
        more = np.diff(a, n=n, axis=axis, prepend=a, append=a[:1] if axis == 0 else a[:, :1])
        check(found, more)


@pytest.mark.parametrize("order", [0, 1, 3, 0.5, -2])
def test_norms_by_sums_of_powers(simulated: Device, order: float) -> None:
    a = RNG.standard_normal((4, 5, 6)).astype(np.complex64)
    x = simulated.from_numpy(a)
    for axis in (None, 1, -1, (0, 2)):
        for keepdims in (False, True):
            options: dict[str, Any] = {"axis": axis, "keepdims": keepdims, "ord": order}
            found = portable.to_numpy(xp.linalg.vector_norm(x, **options))
            np.testing.assert_allclose(found, np.linalg.vector_norm(a, **options), 1e-4)
    if order >= 0:
        check(xp.linalg.vector_norm(x[:0], axis=0, ord=order), np.zeros((5, 6), "f4"))
