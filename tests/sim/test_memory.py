"""Plain accesses: layouts, widening, bounds and memory never written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable import sim
from portable.lang.ir import expressions as e
from portable.lang.ir.types import Layout, Turns, Vector, chunk_bytes
from portable.sim.errors import OutOfBoundsError, UninitialisedReadError
from sim.build import K, binary, compare, global_array

X, OUT = global_array("x", dt.int32), global_array("out", dt.int32)


def run(k: K, *arguments: Any, groups: int = 1, **options: Any) -> None:
    sim.run(k.build(), (groups, 1, 1), arguments, **options)


@pytest.mark.parametrize("view", [np.s_[::-1, ::2], np.s_[::3, ::-1], np.s_[1:, 2:], np.s_[:, :]])
def test_strided_views(view: Any) -> None:
    x, out = global_array("x", dt.int16, 2), global_array("out", dt.int32, 2)
    memory = np.arange(60, dtype=np.int16).reshape(6, 10)[view]
    k = K(x, out, workgroup=(4, 4, 1))
    i, j = k.word("global_id", 1), k.word("global_id", 0)
    inside = binary(
        "and",
        compare("lt", i, e.Extent(x, 0, dt.int32)),
        compare("lt", j, e.Extent(x, 1, dt.int32)),
    )
    with k.when(inside):
        k.store(out, i, j, binary("mul", k.load(x, i, j), 1000))
    found = np.zeros((12, 12), np.int32).T[: memory.shape[0], : memory.shape[1]]
    sim.run(k.build(), (3, 2, 1), [memory, found])
    assert (found == memory.astype(np.int32) * 1000).all()


def test_broadcast_view_and_scalar_array() -> None:
    x, one = global_array("x", dt.int32), global_array("one", dt.int32, 0)
    k = K(x, one, OUT)
    k.store(OUT, k.lid, binary("add", k.load(x, k.lid), k.load(one)))
    found = np.zeros(4, np.int32)
    run(k, np.broadcast_to(np.int32(7), (4,)), np.array(3, np.int32), found)
    assert found.tolist() == [10] * 4


def test_complex_components() -> None:
    z = global_array("z", dt.complex64)
    k = K(z)
    real, imaginary = k.load(z, k.lid, component=0), k.load(z, k.lid, component=1)
    k.store(z, k.lid, imaginary, component=0)
    k.store(z, k.lid, real, component=1)
    found = np.array([1 + 2j, 3 - 4j, 0, 1j], np.complex64)
    run(k, found)
    assert found.tolist() == [2 + 1j, -4 + 3j, 0, 1]


@pytest.mark.parametrize("axis", [0, 1])
def test_vectors_along_any_axis(axis: int) -> None:
    x, out = global_array("x", dt.uint8, 2), global_array("out", dt.int32, 2)
    k = K(x, out, workgroup=2)
    index = (0, k.lid) if axis == 0 else (k.lid, 1)
    v = k.load(x, *index, kind=Vector(dt.uint32, 4), axis=axis)
    k.store(out, *index, e.Cast(v, Vector(dt.int32, 4)), axis=axis)
    memory = np.arange(36, dtype=np.uint8).reshape(6, 6)[:, ::-1]
    found = np.zeros((6, 6), np.int32)
    run(k, memory, found)
    expected = np.zeros((6, 6), np.int32)
    part = np.s_[:4, :2] if axis == 0 else np.s_[:2, 1:5]
    expected[part] = memory[part]
    assert (found == expected).all()


def test_private_arrays_of_vectors() -> None:
    k = K(OUT, workgroup=3)
    p = k.private("p", (2,), dt.int32, lanes=4)
    four = Vector(dt.int32, 4)
    for i in range(2):
        k.store(p, i, e.Splat(binary("add", k.lid, 10 * i), four))
    whole = k.load(p, 1, kind=four)
    k.store(OUT, k.lid, e.Lane(whole, 3))
    found = np.zeros(3, np.int32)
    run(k, found)
    assert found.tolist() == [10, 11, 12]


def test_padded_and_swizzled_layouts_hold_every_element() -> None:
    cases = (
        (dt.int32, Layout((9, 1), 72)),
        (dt.int32, Layout((8, 1), 64, swizzle=2)),
        (dt.uint16, Layout((64, 1), 512, swizzle=8)),
        (dt.float64, Layout((8, 1), 64, swizzle=2)),
    )
    for kind, layout in cases:
        k = K(OUT, workgroup=64)
        tile = k.local("tile", (8, 8), kind, layout=layout)
        row, column = binary("floordiv", k.lid, 8), binary("mod", k.lid, 8)
        k.store(tile, row, column, e.Cast(k.lid, kind.register))
        k.barrier()
        k.store(OUT, k.lid, e.Cast(k.load(tile, column, row), dt.int32))
        found = np.zeros(64, np.int32)
        run(k, found)
        assert (found == np.arange(64).reshape(8, 8).T.reshape(-1)).all()


@pytest.mark.parametrize("itemsize", [2, 8])
@pytest.mark.parametrize("chunks", [2, 4, 8, 16])
def test_chunks_below_each_other_lie_in_different_banks(chunks: int, itemsize: int) -> None:
    size, banks = chunk_bytes(itemsize), 128
    turns, row = Turns.of(chunks, itemsize), np.arange(64)
    for chunk in range(chunks):
        place = row * chunks * turns.chunk + turns.turned(chunk * turns.chunk, row)
        side_by_side = (place * itemsize % banks // size).reshape(-1, banks // size)
        assert (np.sort(side_by_side) == np.arange(banks // size)).all()


def test_local_memory_is_each_workgroups_own() -> None:
    k = K(OUT, workgroup=4)
    tile = k.local("tile", (4,), dt.int32)
    k.store(tile, k.lid, k.group)
    k.barrier()
    k.store(OUT, k.gid, k.load(tile, k.lid))
    found = np.zeros(12, np.int32)
    run(k, found, groups=3)
    assert found.tolist() == [0] * 4 + [1] * 4 + [2] * 4


# -- bounds ---------------------------------------------------------------------------------------


def _shifted(by: int, guard: bool) -> K:
    k = K(X, OUT, workgroup=4)
    i = k.let(binary("add", k.gid, by))
    if guard:
        with k.when(binary("and", compare("lt", i, 8), compare("ge", i, 0))):
            k.store(OUT, k.gid, k.load(X, i))
    else:
        k.store(OUT, k.gid, k.load(X, i))
    return k


@pytest.mark.parametrize(("by", "first", "item"), [(1, 8, 7), (-1, -1, 0)])
def test_global_index_out_of_bounds(by: int, first: int, item: int) -> None:
    arguments = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    with pytest.raises(OutOfBoundsError, match=r"kernel\.py:2") as caught:
        run(_shifted(by, False), *arguments, groups=2)
    fault = caught.value
    assert (fault.array, fault.index, fault.location.line) == ("x", (first,), 2)
    assert fault.work_items[0].global_id == (item, 0, 0)
    assert ("do not wrap" if first < 0 else "if i < x.shape[0]:`") in fault.hint
    run(_shifted(by, True), *arguments, groups=2)


def test_which_dimension_is_out_of_bounds() -> None:
    square = global_array("square", dt.int32, 2)
    k = K(square, workgroup=4)
    k.store(square, k.lid, 4, 1)
    with pytest.raises(OutOfBoundsError, match=r"if i < square\.shape\[1\]:"):
        run(k, np.zeros((4, 4), np.int32))


@pytest.mark.parametrize("space", ["local", "private"])
def test_local_and_private_index_out_of_bounds(space: str) -> None:
    def kernel(index: int) -> K:
        k = K(workgroup=1)
        a = k.local("a", (3,), dt.int32) if space == "local" else k.private("a", (3,), dt.int32)
        k.store(a, index, 1)
        return k

    for index in (3, -1):
        with pytest.raises(OutOfBoundsError, match=f"{space} array a with shape"):
            run(kernel(index))
    run(kernel(2))


def test_vector_that_ends_outside() -> None:
    k = K(X, workgroup=1)
    k.load(X, 5, kind=Vector(dt.int32, 4))
    with pytest.raises(OutOfBoundsError) as caught:
        run(k, np.zeros(8, np.int32))
    assert caught.value.index == (8,)


def test_bounds_switched_off() -> None:
    found = np.full(8, 5, np.int32)
    with sim.checks(bounds=False):
        run(_shifted(4, False), np.arange(8, dtype=np.int32), found, groups=2)
    assert found.tolist() == [4, 5, 6, 7, 0, 0, 0, 0]


# -- memory never written -------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["local", "private"])
def test_reading_what_was_not_written(space: str) -> None:
    def kernel(written: int) -> K:
        k = K(OUT, workgroup=4)
        make = k.local if space == "local" else k.private
        a = make("a", (4,), dt.int32)
        with k.when(compare("lt", k.lid, written)):
            k.store(a, k.lid, 1)
        k.barrier()
        k.store(OUT, k.lid, k.load(a, k.lid))
        return k

    found = np.zeros(4, np.int32)
    with pytest.raises(UninitialisedReadError, match="nothing has written") as caught:
        run(kernel(2), found)
    assert caught.value.index == (2,)
    assert len(caught.value.work_items) == 2
    run(kernel(4), found)
    with sim.checks(uninitialised=False):
        run(kernel(2), found)


def _copy() -> K:
    k = K(X, OUT)
    k.store(OUT, k.lid, k.load(X, k.lid))
    return k


def test_global_arrays_said_to_be_uninitialised() -> None:
    x, found = np.zeros(4, np.int32), np.zeros(4, np.int32)
    run(_copy(), x, found)
    with pytest.raises(UninitialisedReadError):
        run(_copy(), x, found, uninitialised=("x",))
    with pytest.raises(UninitialisedReadError):
        run(_copy(), x, x[:], uninitialised=("out",))


@pytest.mark.parametrize("kind", [dt.int32, dt.int8])
def test_new_arrays_are_uninitialised_until_written(kind: dt.DType) -> None:
    x = global_array("x", kind)
    k = K(x, OUT)
    k.store(OUT, k.lid, k.load(x, k.lid))
    fill = K(x)
    fill.store(x, fill.lid, 0)
    found = np.zeros(4, np.int32)
    new = sim.empty((4,), kind)
    with pytest.raises(UninitialisedReadError):
        run(k, new, found)
    run(fill, new)
    run(k, new, found)
    by_host = sim.empty((4,), kind)
    by_host[:] = 3
    run(k, by_host, found)
    assert found.tolist() == [3] * 4


def test_new_array_written_in_part() -> None:
    new = sim.empty((8,), dt.int32)
    new[2:6] = 1
    run(_copy(), new[2:6], np.zeros(4, np.int32))
    with pytest.raises(UninitialisedReadError) as caught:
        run(_copy(), new[3:7], np.zeros(4, np.int32))
    assert caught.value.index == (3,)
