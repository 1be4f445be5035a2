"""Races: each planted in a kernel, and gone from its mended twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable import sim
from portable.sim.errors import RaceError
from sim.build import K, binary, compare, global_array

X, OUT = global_array("x", dt.int32), global_array("out", dt.int32)
FLAG, DATA = global_array("flag", dt.int32), global_array("data", dt.int32)


def run(k: K, *arguments: Any, groups: int = 1) -> None:
    sim.run(k.build(), (groups, 1, 1), arguments)


def fails(k: K, *arguments: Any, groups: int = 1) -> RaceError:
    with pytest.raises(RaceError) as caught:
        run(k, *arguments, groups=groups)
    with sim.checks(races=False):
        run(k, *arguments, groups=groups)
    return caught.value


def zeros(n: int = 16) -> Any:
    return np.zeros(n, np.int32)


# -- inside a workgroup ---------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["local", "global"])
@pytest.mark.parametrize("barrier", [True, False])
def test_reading_a_neighbours_write(space: str, barrier: bool) -> None:
    k = K(X, OUT, workgroup=8)
    a = k.local("a", (8,), dt.int32) if space == "local" else X
    k.store(a, k.lid, k.lid)
    written = k.line
    if barrier:
        k.barrier()
    neighbour = k.load(a, binary("mod", binary("add", k.lid, 1), 8))
    read = k.line
    k.store(OUT, k.lid, neighbour)
    if barrier:
        run(k, zeros(), zeros())
        return
    fault = fails(k, zeros(), zeros())
    assert fault.location.line == read
    assert fault.other is not None
    assert (fault.other.kind, fault.other.location.line) == ("write", written)
    assert fault.work_items[0].local_id == (0, 0, 0)
    assert fault.other.work_item.local_id == (1, 0, 0)
    assert fault.index == (1,)
    assert "kernel.py:1:" in str(fault)
    assert "barrier" in str(fault)


@pytest.mark.parametrize(("readers", "fault"), [(4, False), (8, True)])
@pytest.mark.parametrize("later", [False, True])
def test_a_barrier_of_some_orders_them_alone(readers: int, fault: bool, later: bool) -> None:
    k = K(X, OUT, workgroup=8)
    a = k.local("a", (8,), dt.int32)
    for value in (k.lid, binary("add", k.lid, 1)):
        k.store(a, k.lid, value)
        k.barrier(meeting=4)
        if later:
            k.barrier()
        with k.when(compare("lt", k.lid, readers)):
            k.store(OUT, k.lid, k.load(a, binary("xor", k.lid, 1)))
        k.barrier(meeting=0 if later else 4)
    if fault and not later:
        assert fails(k, zeros(), zeros()).work_items[0].local_id == (4, 0, 0)
    else:
        run(k, zeros(), zeros())


@pytest.mark.parametrize("barrier", [True, False])
def test_writing_what_a_neighbour_has_read(barrier: bool) -> None:
    k = K(X, workgroup=8)
    v = k.load(X, binary("mod", binary("add", k.lid, 1), 8))
    if barrier:
        k.barrier()
    k.store(X, k.lid, v)
    if barrier:
        found = np.arange(8, dtype=np.int32)
        run(k, found)
        assert found.tolist() == [1, 2, 3, 4, 5, 6, 7, 0]
    else:
        assert fails(k, zeros()).other.kind == "read"  # type: ignore[union-attr]


def test_writing_what_all_have_read() -> None:
    for barrier in (True, False):
        k = K(X, OUT, workgroup=4)
        k.store(OUT, k.lid, k.load(X, 0))
        if barrier:
            k.barrier()
        with k.when(compare("eq", k.lid, 2)):
            k.store(X, 0, 1)
        if barrier:
            run(k, zeros(), zeros())
        else:
            other = fails(k, zeros(), zeros()).other
            assert other is not None
            assert other.work_item.local_id != (2, 0, 0)


def test_two_writes_of_the_same_value() -> None:
    k = K(X, workgroup=4)
    k.store(X, 0, 1)
    assert fails(k, zeros()).index == (0,)
    one = K(X, workgroup=4)
    with one.when(compare("eq", one.lid, 0)):
        one.store(X, 0, 1)
    run(one, zeros())


def test_writes_of_two_statements() -> None:
    k = K(X, workgroup=4)
    k.store(X, k.lid, 1)
    k.store(X, binary("xor", k.lid, 1), 2)
    fails(k, zeros())


def test_atomics_do_not_race_with_one_another() -> None:
    k = K(X, workgroup=8)
    k.atomic("add", X, 0, 1)
    k.atomic("load", X, 0)
    found = zeros()
    run(k, found, groups=4)
    assert found[0] == 32


@pytest.mark.parametrize(("op", "race"), [("add", True), ("store", True), ("load", False)])
def test_atomics_of_workgroup_scope_by_two_workgroups(op: str, race: bool) -> None:
    for other in ("workgroup", "device"):
        k = K(X, workgroup=4)
        with k.when(compare("eq", k.group, 0)):
            k.atomic(op, X, 0, None if op == "load" else 1, scope="workgroup")
        with k.when(compare("eq", k.group, 1)):
            k.atomic("load" if op == "load" else "add", X, 0 if race else 1, 1, scope=other)
        if race:
            assert "scope" in str(fails(k, zeros(), groups=2))
        else:
            run(k, zeros(), groups=2)
        alone = K(X, workgroup=4)
        alone.atomic(op, X, alone.group, None if op == "load" else 1, scope="workgroup")
        alone.atomic("add", X, alone.group, 1, scope=other)
        run(alone, zeros(), groups=2)


@pytest.mark.parametrize("plain", ["read", "write"])
def test_plain_access_beside_an_atomic(plain: str) -> None:
    for barrier in (True, False):
        k = K(X, OUT, workgroup=4)
        k.atomic("add", X, 0, 1)
        if barrier:
            k.barrier()
        with k.when(compare("eq", k.lid, 1)):
            if plain == "read":
                k.store(OUT, 0, k.load(X, 0))
            else:
                k.store(X, 0, 0)
        if barrier:
            run(k, zeros(), zeros())
        else:
            assert fails(k, zeros(), zeros()).other.kind == "atomic write"  # type: ignore[union-attr]


def test_plain_read_beside_an_atomic_load() -> None:
    k = K(X, OUT, workgroup=4)
    k.atomic("load", X, 0)
    k.store(OUT, k.lid, k.load(X, 0))
    run(k, zeros(), zeros())
    k = K(X, workgroup=4)
    k.atomic("load", X, 0)
    with k.when(compare("eq", k.lid, 1)):
        k.store(X, 0, 1)
    fails(k, zeros())


def test_release_and_acquire_inside_a_workgroup() -> None:
    """The last to arrive reads what all have written, without a barrier."""
    for order in ("acq_rel", "relaxed"):
        k = K(OUT, workgroup=4)
        a, count = k.local("a", (4,), dt.int32), k.local("count", (1,), dt.int32)
        with k.when(compare("eq", k.lid, 0)):
            k.store(count, 0, 0)
        k.barrier()
        k.store(a, k.lid, binary("add", k.lid, 1))
        seen = k.atomic("add", count, 0, 1, order=order, scope="workgroup")
        with k.when(compare("eq", seen, 3)):
            total = k.variable("total")
            k.assign(total, 0)
            with k.range(0, 4) as i:
                k.assign(total, binary("add", total, k.load(a, i)))
            k.store(OUT, 0, total)
        found = zeros()
        if order == "acq_rel":
            run(k, found)
            assert found[0] == 10
        else:
            fails(k, found)


# -- between workgroups ---------------------------------------------------------------------------


def test_workgroups_that_write_one_place() -> None:
    for index, sound in ((0, False), (None, True)):
        k = K(X, workgroup=1)
        k.store(X, k.group if index is None else index, 1)
        if sound:
            run(k, zeros(), groups=4)
        else:
            assert "release" in str(fails(k, zeros(), groups=4))


def test_overlapping_views_race_by_address() -> None:
    k = K(X, OUT, workgroup=1)
    k.store(OUT, k.group, k.load(X, k.group))
    memory = zeros(9)
    run(k, memory[:4], memory[4:8], groups=4)
    fault = fails(k, memory[:8], memory[1:], groups=4)
    assert fault.array in {"x", "out"}


def test_overlap_of_different_widths() -> None:
    wide, narrow = global_array("wide", dt.int64), global_array("narrow", dt.int32)
    k = K(wide, narrow, workgroup=1)
    with k.when(compare("eq", k.group, 0)):
        k.store(wide, 1, 5)
    with k.when(compare("eq", k.group, 1)):
        k.store(narrow, 0, 7)
    memory = np.zeros(4, np.int64)
    halves = memory.view(np.int32)
    run(k, memory, halves[4:], groups=2)
    assert fails(k, memory, halves[3:], groups=2).index in {(0,), (1,)}


@pytest.mark.parametrize(
    ("store", "load"), [("release", "acquire"), ("relaxed", "acquire"), ("release", "relaxed")]
)
@pytest.mark.parametrize("seed", range(3))
def test_message_passing(store: str, load: str, seed: int) -> None:
    """The lower ticket writes data and raises a flag; the higher waits for the flag."""
    k = _message(store, load, fences=False)
    with sim.checks(seed=seed):
        if (store, load) == ("release", "acquire"):
            run(k, zeros(), zeros(), zeros(), groups=2)
        else:
            fault = fails(k, zeros(), zeros(), zeros(), groups=2)
            assert fault.array == "data"


def _message(store: str, load: str, *, fences: bool, scope: str = "device") -> K:
    ticket = global_array("ticket", dt.int32)
    k = K(ticket, FLAG, DATA, workgroup=1)
    mine = k.atomic("add", ticket, 0, 1)
    with k.when(compare("eq", mine, 0)):
        k.store(DATA, 0, 42)
        if fences:
            k.fence("release", scope)
        k.atomic("store", FLAG, 0, 1, order=store)
    with k.otherwise():
        k.spin_until(FLAG, 0, 1, order=load)
        if fences:
            k.fence("acquire", scope)
        k.store(DATA, 1, k.load(DATA, 0))
    return k


def test_message_passing_by_fences() -> None:
    data = zeros()
    run(_message("relaxed", "relaxed", fences=True), zeros(), zeros(), data, groups=2)
    assert data[:2].tolist() == [42, 42]
    narrow = _message("relaxed", "relaxed", fences=True, scope="workgroup")
    fails(narrow, zeros(), zeros(), zeros(), groups=2)


@pytest.mark.parametrize("order", ["acq_rel", "relaxed", "release"])
def test_last_workgroup_reduces(order: str) -> None:
    """A chain of read-modify-writes hands on what all of them release."""
    k = K(FLAG, DATA, OUT, workgroup=4)
    k.store(DATA, k.gid, binary("add", k.gid, 1))
    k.barrier()
    seen = k.variable("seen")
    k.assign(seen, 0)
    with k.when(compare("eq", k.lid, 0)):
        k.assign(seen, k.atomic("add", FLAG, 0, 1, order=order))
    last = k.uniform(seen)
    with k.when(compare("eq", last, 3)):
        total = k.variable("total")
        k.assign(total, 0)
        with k.range(0, 16) as i:
            k.assign(total, binary("add", total, k.load(DATA, i)))
        k.store(OUT, k.lid, total)
    found = zeros()
    if order == "acq_rel":
        run(k, zeros(), zeros(), found, groups=4)
        assert found[:4].tolist() == [136] * 4
    else:
        fails(k, zeros(), zeros(), found, groups=4)


def test_each_work_item_releases_its_own_reads() -> None:
    """Only some work-items read and release; the one that then writes has acquired from each."""
    for readers in (2, 3):
        k = K(FLAG, DATA, OUT, workgroup=4)
        with k.when(compare("lt", k.lid, readers)):
            k.store(OUT, k.gid, k.load(DATA, 0))
        with k.when(compare("lt", k.lid, 2)):
            seen = k.atomic("add", FLAG, 0, 1, order="acq_rel")
            with k.when(compare("eq", seen, 5)):
                k.store(DATA, 0, 1)
        if readers == 2:
            run(k, zeros(), zeros(), zeros(), groups=3)
        else:
            fails(k, zeros(), zeros(), zeros(), groups=3)


def test_every_work_item_of_a_workgroup_may_acquire() -> None:
    ticket = global_array("ticket", dt.int32)
    k = K(ticket, FLAG, DATA, workgroup=4)
    mine = k.variable("mine")
    k.assign(mine, 0)
    with k.when(compare("eq", k.lid, 0)):
        k.assign(mine, k.atomic("add", ticket, 0, 1))
    turn = k.uniform(mine)
    k.spin_until(FLAG, 0, turn)
    k.store(DATA, k.lid, binary("add", k.load(DATA, k.lid), 1))
    k.barrier()
    with k.when(compare("eq", k.lid, 0)):
        k.atomic("add", FLAG, 0, 1, order="release")
    data = zeros()
    run(k, zeros(), zeros(), data, groups=6)
    assert data[:4].tolist() == [6] * 4


def test_a_relaxed_store_ends_what_was_released() -> None:
    k = K(FLAG, DATA, workgroup=1)
    with k.when(compare("eq", k.group, 0)):
        k.store(DATA, 0, 1)
        k.atomic("store", FLAG, 0, 1, order="release")
        k.store(DATA, 1, 1)
        k.atomic("store", FLAG, 0, 2, order="relaxed")
    with k.when(compare("eq", k.group, 1)):
        k.spin_until(FLAG, 0, 2)
        k.load(DATA, 0)
    fails(k, zeros(), zeros(), groups=2)


def test_workgroups_that_read_what_one_writes() -> None:
    """Many workgroups' unordered reads of one place all count."""
    for wait in (True, False):
        ticket = global_array("ticket", dt.int32)
        k = K(ticket, FLAG, DATA, workgroup=1)
        mine = k.atomic("add", ticket, 0, 1)
        with k.when(compare("lt", mine, 4)):
            k.load(DATA, 0)
            k.atomic("add", FLAG, 0, 1, order="release" if wait else "relaxed")
        with k.otherwise():
            k.spin_until(FLAG, 0, 4)
            k.store(DATA, 0, 1)
        if wait:
            run(k, zeros(), zeros(), zeros(), groups=5)
        else:
            fails(k, zeros(), zeros(), zeros(), groups=5)


def test_the_end_of_a_kernel_orders() -> None:
    k = K(X, workgroup=1)
    with k.when(compare("eq", k.group, 0)):
        k.store(X, 0, 1)
    x = zeros()
    run(k, x, groups=2)
    k = K(X, workgroup=1)
    with k.when(compare("eq", k.group, 1)):
        k.store(X, 0, 2)
    run(k, x, groups=2)
    assert x[0] == 2


@pytest.mark.parametrize("silent", [0, 1, None])
def test_each_of_several_readers_must_release(silent: int | None) -> None:
    ticket = global_array("ticket", dt.int32)
    k = K(ticket, FLAG, DATA, workgroup=1)
    mine = k.atomic("add", ticket, 0, 1)
    with k.when(compare("lt", mine, 2)):
        k.load(DATA, 0)
        for reader in range(2):
            order = "relaxed" if reader == silent else "release"
            with k.when(compare("eq", mine, reader)):
                k.atomic("add", FLAG, reader, 1, order=order)
    with k.otherwise():
        for reader in range(2):
            k.spin_until(FLAG, reader, 1)
        k.store(DATA, 0, 1)
    with sim.checks(resident=1):
        if silent is None:
            run(k, zeros(), zeros(), zeros(), groups=3)
        else:
            fails(k, zeros(), zeros(), zeros(), groups=3)
