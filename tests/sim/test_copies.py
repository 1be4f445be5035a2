"""Asynchronous copies: what they do, and what must not be done before they are waited for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable import sim
from portable.errors import SimulationError
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array
from portable.sim.errors import (
    AsyncCopyError,
    DivergenceError,
    EndlessWaitError,
    NotUniformError,
    OutOfBoundsError,
    RaceError,
    UninitialisedReadError,
)
from sim.build import K, binary, compare, const, global_array

X, OUT = global_array("x", dt.int32), global_array("out", dt.int32)
G = global_array("g", dt.int32, 2)


def run(k: K, *arguments: Any) -> None:
    sim.run(k.build(), (1, 1, 1), arguments)


def region(array: Array, *starts: Any, extents: Any, transposed: bool = False) -> e.Region:
    fixed = tuple(x if isinstance(x, e.Expression) else const(x) for x in starts)
    return e.Region(array, fixed, extents, transposed)


def copy(k: K, target: e.Region, source: e.Region, asynchronous: bool = True) -> int:
    k.add(s.CopyTile(target, source, k.loc, asynchronous))
    return k.line


def commit(k: K) -> None:
    k.add(s.CopyCommit(k.loc))


def wait(k: K, pending: int = 0) -> None:
    k.add(s.CopyWait(pending, k.loc))


# -- tiles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("start", [(0, 0), (1, 2), (3, -1), (-2, 4)])
def test_a_tile_comes_in_with_zeros_around(start: Any, transposed: bool) -> None:
    out = global_array("out", dt.int32, 2)
    k = K(G, out, workgroup=16)
    tile = k.local("tile", (4, 4), dt.int32)
    source = region(G, *start, extents=(4, 4), transposed=transposed)
    copy(k, region(tile, 0, 0, extents=(4, 4)), source)
    commit(k)
    wait(k)
    k.barrier()
    i, j = binary("floordiv", k.lid, 4), binary("mod", k.lid, 4)
    k.store(out, i, j, k.load(tile, i, j))
    memory, found = np.arange(1, 31, dtype=np.int32).reshape(5, 6), np.zeros((4, 4), np.int32)
    run(k, memory, found)
    wide = np.zeros((20, 20), np.int32)
    wide[5:10, 5:11] = memory
    expected = wide[5 + start[0] :, 5 + start[1] :][:4, :4]
    assert (found == (expected.T if transposed else expected)).all()


@pytest.mark.parametrize("kind", [dt.int32, dt.complex64, dt.float16])
def test_a_tile_goes_out_within_bounds(kind: dt.DType) -> None:
    g = global_array("g", kind, 3)
    k = K(g, workgroup=8)
    tile = k.local("tile", (2, 4), kind)
    component = {"component": 0} if kind.is_complex else {}
    value = e.Cast(k.lid, kind.real.register)
    place = binary("floordiv", k.lid, 4), binary("mod", k.lid, 4)
    k.store(tile, *place, value, **component)
    if kind.is_complex:
        k.store(tile, *place, value, component=1)
    k.barrier()
    copy(k, region(g, 1, 1, 2, extents=(2, None, 4)), region(tile, 0, 0, extents=(2, 4)))
    commit(k)
    wait(k)
    found = np.zeros((2, 3, 5), kind.numpy)
    run(k, found)
    expected = np.zeros((2, 3, 5), kind.numpy)
    expected[1, 1, 2:] = np.arange(3) * (1 + 1j if kind.is_complex else 1)
    assert (found == expected).all()


def pipeline(pending: int, barrier: bool) -> tuple[K, int, int]:
    """Two tiles in flight; the first is used after waiting for all groups but `pending`."""
    k = K(X, OUT, workgroup=4)
    tile = k.local("tile", (2, 4), dt.int32)
    lines = []
    for stage in range(2):
        here = region(tile, stage, 0, extents=(None, 4))
        lines.append(copy(k, here, region(X, 4 * stage, extents=(4,))))
        commit(k)
    wait(k, pending)
    if barrier:
        k.barrier()
    k.store(OUT, k.lid, k.load(tile, 0, k.lid))
    load = k.line - 1
    return k, lines[0], load


def test_waiting_for_all_groups_but_one() -> None:
    found = np.zeros(4, np.int32)
    run(pipeline(1, True)[0], np.arange(8, dtype=np.int32), found)
    assert found.tolist() == [0, 1, 2, 3]


def test_reading_before_the_wait() -> None:
    k, started, load = pipeline(2, True)
    with pytest.raises(AsyncCopyError, match="still working on") as caught:
        run(k, np.arange(8, dtype=np.int32), np.zeros(4, np.int32))
    assert caught.value.other is not None
    assert (caught.value.location.line, caught.value.other.location.line) == (load, started)
    with sim.checks(copies=False), pytest.raises(UninitialisedReadError):
        run(k, np.arange(8, dtype=np.int32), np.zeros(4, np.int32))


def test_reading_before_the_barrier() -> None:
    k, started, _ = pipeline(1, False)
    with pytest.raises(RaceError, match="together") as caught:
        run(k, np.arange(8, dtype=np.int32), np.zeros(4, np.int32))
    assert caught.value.other is not None
    assert caught.value.other.location.line == started


def _overwriting(when: str, end: str) -> K:
    k = K(X, workgroup=4)
    tile = k.local("tile", (4,), dt.int32)
    copy(k, region(tile, 0, extents=(4,)), region(X, 0, extents=(4,)))
    commit(k)
    if when == "before":
        k.store(tile if end == "target" else X, k.lid, 9)
    wait(k)
    k.barrier()
    if when == "after":
        k.store(tile if end == "target" else X, k.lid, 9)
    return k


@pytest.mark.parametrize("end", ["target", "source"])
def test_overwriting_an_end_of_a_copy(end: str) -> None:
    run(_overwriting("after", end), np.zeros(4, np.int32))
    with pytest.raises(AsyncCopyError, match="write of"):
        run(_overwriting("before", end), np.zeros(4, np.int32))


def test_a_tile_that_is_still_being_read() -> None:
    """Filling a tile again needs a barrier after its last use."""
    for barrier in (True, False):
        k = K(X, OUT, workgroup=4)
        tile = k.local("tile", (4,), dt.int32)
        with k.range(0, 3) as i:
            start = binary("mul", i, 4)
            copy(k, region(tile, 0, extents=(4,)), region(X, start, extents=(4,)), False)
            k.barrier()
            k.store(OUT, binary("add", start, k.lid), k.load(tile, binary("xor", k.lid, 1)))
            if barrier:
                k.barrier()
        found = np.zeros(12, np.int32)
        if barrier:
            run(k, np.arange(12, dtype=np.int32), found)
            assert (found == np.arange(12) ^ 1).all()
        else:
            with pytest.raises(RaceError):
                run(k, np.arange(12, dtype=np.int32), found)


def test_copy_to_global_memory_that_nothing_waits_for() -> None:
    k = K(X, workgroup=4)
    tile = k.local("tile", (4,), dt.int32)
    k.store(tile, k.lid, 1)
    k.barrier()
    copy(k, region(X, 0, extents=(4,)), region(tile, 0, extents=(4,)))
    with pytest.raises(AsyncCopyError, match="nothing waits for"):
        run(k, np.zeros(4, np.int32))


def test_tiles_that_differ_between_work_items() -> None:
    k = K(X, workgroup=4)
    tile = k.local("tile", (4,), dt.int32)
    copy(k, region(tile, 0, extents=(4,)), region(X, k.lid, extents=(4,)))
    with pytest.raises(NotUniformError):
        run(k, np.zeros(4, np.int32))
    k = K(X, workgroup=4)
    tile = k.local("tile", (4,), dt.int32)
    with k.when(compare("eq", k.lid, 0)):
        copy(k, region(tile, 0, extents=(4,)), region(X, 0, extents=(4,)))
    with pytest.raises(DivergenceError, match="a copy of a tile"):
        run(k, np.zeros(4, np.int32))


# -- vectors --------------------------------------------------------------------------------------


def _vectors(waits: bool, valid: int) -> K:
    k = K(X, OUT, workgroup=2)
    tile = k.local("tile", (8,), dt.int32)
    start = binary("mul", k.lid, 4)
    where = (start,)
    k.add(s.CopyVector(tile, where, X, where, 4, binary("sub", const(valid), start), k.loc))
    commit(k)
    if waits:
        wait(k)
    for lane in range(4):
        at = binary("add", start, lane)
        k.store(OUT, at, k.load(tile, at))
    return k


def test_a_work_item_sees_its_own_copy_after_its_wait() -> None:
    found = np.zeros(8, np.int32)
    run(_vectors(True, 6), np.arange(1, 7, dtype=np.int32), found)
    assert found.tolist() == [1, 2, 3, 4, 5, 6, 0, 0]
    with pytest.raises(AsyncCopyError):
        run(_vectors(False, 6), np.arange(1, 7, dtype=np.int32), found)
    with pytest.raises(OutOfBoundsError):
        run(_vectors(True, 7), np.arange(1, 7, dtype=np.int32), found)


# -- bulk copies ----------------------------------------------------------------------------------


def bulk(*, starts: int = 2, phases: Any = None, waits: bool = True) -> K:
    """Rounds of a bulk copy of two rows through one slot."""
    k = K(G, OUT, workgroup=8)
    tile, slots = k.local("tile", (2, 4), dt.int32), k.local("slots", (2,), dt.uint64)
    with k.range(0, 2) as i:
        with k.when(compare("eq", k.lid, 3)), k.when(compare("lt", i, starts)):
            row = binary("mul", i, 2)
            k.add(
                s.BulkCopy(
                    tile, (const(0),) * 2, G, (row, const(0)), const(8), slots, const(1), k.loc
                )
            )
        if waits:
            phase = i if phases is None else const(phases)
            k.add(s.BulkWait(slots, const(1), phase, k.loc))
        at = binary("floordiv", k.lid, 4), binary("mod", k.lid, 4)
        out = binary("add", binary("mul", i, 8), k.lid)
        k.store(OUT, out, k.load(tile, *at))
        k.barrier()
    return k


def test_bulk_copies_through_a_slot() -> None:
    found = np.zeros(16, np.int32)
    run(bulk(), np.arange(16, dtype=np.int32).reshape(4, 4), found)
    assert (found == np.arange(16)).all()


@pytest.mark.parametrize(
    ("options", "fault", "text"),
    [
        ({"phases": 0}, AsyncCopyError, "phase 0 where phase 1 is due"),
        ({"starts": 1}, EndlessWaitError, "no bulk copy into slot 1"),
        ({"waits": False}, AsyncCopyError, "still working on"),
    ],
)
def test_bulk_copies_gone_wrong(options: Any, fault: type[SimulationError], text: str) -> None:
    with pytest.raises(fault, match=text):
        run(bulk(**options), np.arange(16, dtype=np.int32).reshape(4, 4), np.zeros(16, np.int32))


def test_bulk_copies_need_contiguous_memory() -> None:
    memory = np.arange(32, dtype=np.int32).reshape(4, 8)[:, ::2]
    with pytest.raises(AsyncCopyError, match="not contiguous"):
        run(bulk(), memory, np.zeros(16, np.int32))
    with pytest.raises(OutOfBoundsError):
        run(bulk(), np.zeros((3, 4), np.int32), np.zeros(16, np.int32))


@pytest.mark.parametrize("waits", [True, False])
def test_bulk_copies_out(waits: bool) -> None:
    k = K(X, workgroup=4)
    tile = k.local("tile", (4,), dt.int32)
    k.store(tile, k.lid, k.lid)
    k.barrier()
    with k.when(compare("eq", k.lid, 0)):
        k.add(s.BulkCopy(X, (const(2),), tile, (const(0),), const(4), None, None, k.loc))
        commit(k)
        if waits:
            wait(k)
    k.barrier()
    k.store(tile, k.lid, 7)
    found = np.zeros(6, np.int32)
    if waits:
        run(k, found)
        assert found.tolist() == [0, 0, 0, 1, 2, 3]
    else:
        with pytest.raises(AsyncCopyError, match="write of tile"):
            run(k, found)
