"""Indexing and assignment against NumPy, by random indices of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import portable
import portable.array as xp
from portable.backend import Device

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
QUICK = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
LINE = np.arange(10.0)


def numbered(shape: tuple[int, ...], dtype: str = "int32") -> Any:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def same(found: Any, expected: Any) -> None:
    got = portable.to_numpy(found)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(got, expected)


@st.composite
def index_for(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Integers, slices, ``...``, None and arrays of integers or bools, as far as they go."""
    items: list[Any] = []
    dim = 0
    while dim < len(shape):
        extent = shape[dim]
        kind = draw(st.sampled_from(["slice", "slice", "integer", "array", "mask", "new", "stop"]))
        if kind == "stop":
            break
        if kind == "new":
            items.append(None)
            continue
        if kind == "mask":
            dims = draw(st.integers(1, len(shape) - dim))
            items.append(draw(hnp.arrays(bool, shape[dim : dim + dims])))
            dim += dims
            continue
        if kind == "slice" or not extent:
            items.append(draw(st.slices(extent)))
        elif kind == "integer":
            items.append(draw(st.integers(-extent, extent - 1)))
        else:
            places = hnp.array_shapes(min_dims=0, max_dims=2, max_side=3)
            elements = st.integers(-extent, extent - 1)
            items.append(draw(hnp.arrays("int64", places, elements=elements)))
        dim += 1
    if draw(st.booleans()):
        items.append(...)
    return tuple(items)


def on(device: Device, index: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(device.from_numpy(i) if isinstance(i, np.ndarray) else i for i in index)


@QUICK
@given(data=st.data())
def test_any_index(ours: Device, data: Any) -> None:
    a = numbered(data.draw(SHAPES))
    index = data.draw(index_for(a.shape))
    x = ours.from_numpy(a)
    try:
        expected = a[index]
    except IndexError:  # the arrays do not broadcast
        with pytest.raises((IndexError, ValueError)):
            x[on(ours, index)]
        return
    same(x[on(ours, index)], np.asarray(expected))


def one_of_each_stays(found: Any, before: Any, numbers: Any, values: Any) -> None:
    """Whether elements named by their `numbers`, some of them twice, hold one of their values."""
    for number in range(before.size):
        named = numbers == number
        assert found.flat[number] in (values[named] if named.any() else before.flat[[number]])


@QUICK
@given(data=st.data())
def test_any_assignment(ours: Device, data: Any) -> None:
    a = numbered(data.draw(SHAPES))
    index = data.draw(index_for(a.shape))
    x = ours.from_numpy(a)
    try:
        part = np.asarray(a[index])
    except IndexError:
        return
    numbers = np.arange(a.size).reshape(a.shape)[index]
    values = -1 - numbered(part.shape)
    if np.unique(numbers).size < numbers.size:
        x[on(ours, index)] = ours.from_numpy(values)
        one_of_each_stays(portable.to_numpy(x), a, numbers, values)
        return
    a[index] = values
    x[on(ours, index)] = ours.from_numpy(values)
    same(x, a)
    a[index] = 7
    x[on(ours, index)] = 7
    same(x, a)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "float16", "float32", "int64", "complex64", "complex128"]
)
def test_an_element_named_twice_holds_one_of_its_values(ours: Device, dtype: str) -> None:
    index = np.array([3, 5, 3, -7, 0, 3])
    a = np.zeros(10, dtype)
    values = np.array([1, 0, 1, 1, 1, 1] if dtype == "bool" else [1, 2, 3, 4, 5, 6]).astype(dtype)
    x = ours.from_numpy(a)
    x[ours.from_numpy(index)] = ours.from_numpy(values)
    one_of_each_stays(portable.to_numpy(x), a, np.arange(10)[index], values)
    x[ours.from_numpy(index)] = values[0].item()
    a[index] = values[0]
    same(x, a)
    rows = ours.from_numpy(np.zeros((4, 3), dtype))
    rows[ours.from_numpy(np.array([2, 2])), 1:] = ours.from_numpy(values[4:])
    same(rows[2, 1:], values[4:])


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64"])
@pytest.mark.parametrize("bad", [10, 100, -11])
def test_arrays_out_of_range(ours: Device, dtype: str, bad: int) -> None:
    if bad < 0 and dtype == "uint64":
        bad = 2**64 - 1
    x = ours.from_numpy(LINE)
    index = ours.from_numpy(np.array([0, 1, bad, 2], dtype))
    for refused in (
        lambda: x[index],
        lambda: x[None, index],
        lambda: xp.take(x, index),
        lambda: xp.take_along_axis(x, index),
        lambda: x.__setitem__(index, 0.0),
    ):
        with pytest.raises(IndexError, match=rf"index {bad} is out of range for extent 10"):
            refused()
    same(x, LINE)
    same(x[index[:2]], LINE[:2])


def test_a_mask_and_a_number_wait_for_nothing(ours: Device) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    x = ours.from_numpy(a)
    x[x > 20] = -1
    x[xp.asarray([True, False], device=ours), ...] = 5
    x[x[..., 0] == 12.0] = xp.asarray(9.0, device=ours)
    a[a > 20] = -1
    a[0] = 5
    a[a[..., 0] == 12.0] = 9
    same(x, a)
    with pytest.raises(IndexError, match="mask of shape"):
        x[xp.asarray([True, False, True], device=ours)] = 1
    with pytest.raises(TypeError, match="astype"):
        xp.ones((2,), dtype=xp.int32, device=ours)[xp.ones((2,), dtype=xp.bool, device=ours)] = 0.5


@pytest.mark.parametrize("indices", [[[0, 1, 2]], [[3], [0]], [[-1, -4], [2, 2]]], ids=str)
def test_take_along_axis(ours: Device, indices: Any) -> None:
    a = numbered((2, 4))
    index = np.array(indices)
    found = xp.take_along_axis(ours.from_numpy(a), ours.from_numpy(index), axis=1)
    same(found, np.take_along_axis(a, np.broadcast_to(index, (2, index.shape[1])), 1))


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1,), "float32"), ((9000,), "bool"), ((13, 64), "float16"), ((30, 7, 3), "complex128")],
    ids=str,
)
def test_assignment_to_what_is_true_in_a_mask(ours: Device, shape: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a = (rng.random(shape) * 9).astype(dtype)
    for view in (np.s_[:], np.s_[::-1]):
        whole, x = a.copy(), ours.from_numpy(a)
        for share in (0.0, 0.3, 1.0):
            chosen = rng.random(a[view].shape) < share
            values = (rng.random(int(chosen.sum())) * 9).astype(dtype)
            mask, one = ours.from_numpy(chosen), np.asarray(7).astype(dtype)
            whole[view][chosen], x[view][mask] = values, ours.from_numpy(values)
            same(x, whole)
            same(x[view][mask], values)
            whole[view][~chosen], x[view][~mask] = one, ours.from_numpy(one)
            same(x, whole)


def test_as_many_values_as_a_mask_chooses(ours: Device) -> None:
    x = ours.from_numpy(LINE)
    mask = x > 3
    for wrong in (LINE[:5], LINE[:7], LINE[:6, None]):
        with pytest.raises(ValueError, match="assigned"):
            x[mask] = ours.from_numpy(wrong)
    same(x, LINE)
    x[mask] = x[:6]
    same(x, np.concatenate([LINE[:4], LINE[:6]]))
    x[~mask] = x[8:9]
    same(x[:4], np.full(4, LINE[4]))


def test_nothing_is_read_of_what_a_mask_leaves_alone(ours: Device) -> None:
    third = np.arange(50) % 3 == 0
    x, mask = xp.empty((50,), dtype=xp.float32, device=ours), ours.from_numpy(third)
    x[mask] = 4.0
    x[mask] = x[mask] * 2
    same(x[mask], np.full(17, 8.0, np.float32))
    x[~mask] = 1.0
    same(x, np.where(third, 8.0, 1.0).astype(np.float32))


FIRST = np.array([-5, 4, 0])
SECOND = np.array([[0, -6, 5], [2, 2, -1]])
THIRD = np.array([[6], [-7]])
BESIDE_ARRAYS: list[tuple[Any, ...]] = [
    (2, SECOND),
    (slice(None), 2, THIRD),
    (2, slice(None), THIRD),
    (FIRST, 3, slice(1, 3)),
    (FIRST, slice(None), 2),
    (None, 1, SECOND, slice(None, None, -1)),
    (FIRST[:2, None], SECOND, -1),
    (-1, FIRST, ..., 2),
]


@pytest.mark.parametrize("key", BESIDE_ARRAYS, ids=str)
def test_integers_beside_arrays(simulated: Device, key: tuple[Any, ...]) -> None:
    a = np.arange(5 * 6 * 7 * 4).reshape(5, 6, 7, 4)
    x = simulated.from_numpy(a)
    mine = tuple(simulated.from_numpy(k) if isinstance(k, np.ndarray) else k for k in key)
    np.testing.assert_array_equal(portable.to_numpy(x[mine]), a[key])
    a[key], x[mine] = 7, 7
    np.testing.assert_array_equal(portable.to_numpy(x), a)


FAR: list[tuple[Any, ...]] = [
    (9, SECOND),
    (-6, SECOND),
    (FIRST, 6),
    (FIRST, slice(None), 7),
    (FIRST, SECOND + 6),
]


@pytest.mark.parametrize("key", FAR, ids=str)
def test_integers_out_of_range_beside_arrays(simulated: Device, key: tuple[Any, ...]) -> None:
    x = simulated.from_numpy(np.zeros((5, 6, 7), np.int64))
    mine = tuple(simulated.from_numpy(k) if isinstance(k, np.ndarray) else k for k in key)
    with pytest.raises(IndexError, match="out of range"):
        x[mine]


@pytest.mark.parametrize("key", [[2, -5, 0], np.array([[4], [-1]], np.int8), [], ([1, 2], [3, -6])])
def test_integers_of_the_host(ours: Device, key: Any) -> None:
    a = numbered((5, 6))
    x = ours.from_numpy(a)
    same(x[key], a[key])
    a[key], x[key] = -7, -7
    same(x, a)


@pytest.mark.parametrize("key", [[2, 5], np.array([-6]), ([0, 1], [2, 6])], ids=str)
def test_integers_of_the_host_out_of_range(ours: Device, key: Any) -> None:
    a = numbered((5, 6))
    x = ours.from_numpy(a)
    with pytest.raises(IndexError, match="out of range for extent"):
        x[key]
    with pytest.raises(IndexError, match="out of range for extent"):
        x[key] = 1
    same(x, a)


def many_indices(count: int, device: Device) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """An array, an index of `count` arrays that broadcast, and the same index on a device."""
    rng = np.random.default_rng(count)
    a = numbered((3, 4, 2, 5, 3)[: count + 1])
    shapes = [(3, 1), (2,), (3, 2), (1,)]
    index = tuple(rng.integers(-n, n, shapes[d]) for d, n in enumerate(a.shape[:count]))
    return a, index, on(device, index)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_several_arrays_of_indices(ours: Device, count: int) -> None:
    a, index, mine = many_indices(count, ours)
    x = ours.from_numpy(a)
    same(x[mine], a[index])
    same(x[index], a[index])
    values = -1 - numbered(a[index].shape)
    x[mine] = ours.from_numpy(values)
    numbers = np.arange(a.size).reshape(a.shape)[index]
    one_of_each_stays(portable.to_numpy(x), a, numbers, values)


def test_indices_into_nothing(ours: Device) -> None:
    index = ours.from_numpy(np.array([0, 1]))
    for shape in ((0, 3), (0,), (0, 0)):
        x = ours.from_numpy(np.zeros(shape))
        with pytest.raises(IndexError, match="without elements"):
            x[index]
        with pytest.raises(IndexError, match="without elements"):
            x[index] = 1
        x[index[:0]] = 1
        assert x[index[:0]].shape == shape
    narrow = ours.from_numpy(np.zeros((2, 0)))
    narrow[index] = 1
    with pytest.raises(IndexError, match="index 2 is out of range"):
        narrow[index + 2] = 1


def test_columns_are_assigned_in_place(ours: Device) -> None:
    """Rows and columns, few and many, by one index behind other dimensions and by two."""
    rng = np.random.default_rng(0)
    for shape in ((3, 7, 5), (40, 300, 2)):
        a = rng.standard_normal(shape).astype("f4")
        x, order = ours.from_numpy(a), rng.permutation(shape[1])
        values = rng.standard_normal(shape).astype("f4")
        a[:, order], x[:, ours.from_numpy(order)] = values, ours.from_numpy(values)
        same(x, a)
        ends = np.array([1, -2])
        a[:, order[:2], ends], mine = 5, on(ours, (order[:2], ends))
        x[:, *mine] = 5
        same(x, a)
        a[..., ends], x[..., ours.from_numpy(ends)] = (
            values[..., :1],
            ours.from_numpy(values[..., :1]),
        )
        same(x, a)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_nothing_is_written_if_one_of_several_indices_is_bad(ours: Device, count: int) -> None:
    a, index, _ = many_indices(count, ours)
    x = ours.from_numpy(a)
    far = on(ours, (*index[:-1], index[-1] * 0 + 9))
    for refused in (lambda: x[far], lambda: x.__setitem__(far, 0), lambda: x[..., :0][far]):
        with pytest.raises(IndexError, match="index 9 is out of range"):
            refused()
    same(x, a)


def test_full_slices_behind_an_array_say_nothing(ours: Device) -> None:
    a = numbered((3, 4, 5))
    x = ours.from_numpy(a)
    rows, grid = np.array([True, False, True]), a[..., 0] % 3 == 0
    index = np.array([2, -3])
    for key in [(rows, np.s_[:]), (grid, np.s_[:], ...), (grid, ...), (index, ..., np.s_[:])]:
        same(x[on(ours, key)], a[key])
        a[key] = x[on(ours, key)] = -len(key)
        same(x, a)
    for key in [(grid, np.s_[:], np.s_[:]), (rows, ..., ...), (index, *[np.s_[:]] * 3)]:
        with pytest.raises(IndexError):
            x[on(ours, key)]
        with pytest.raises(IndexError):
            x[on(ours, key)] = 0
