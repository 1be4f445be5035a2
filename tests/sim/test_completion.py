"""When copies land and whose turn it is: what the settings say."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable import sim
from portable.backend import Capabilities
from portable.errors import LaunchError
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.sim.errors import AsyncCopyError, FaultError
from sim.build import K, binary, compare, const
from sim.test_copies import OUT, X, commit, copy, region, wait
from tests.support.compilers import CUDA
from tests.support.faults import planted
from tests.support.matrices import operands


def hasty() -> K:
    """Overwrites what it copies, and reads what it copied before its wait and after it."""
    k = K(X, OUT, workgroup=4)
    tile = k.local("tile", (4,), dt.int32)
    k.store(tile, k.lid, 7)
    k.barrier()
    copy(k, region(tile, 0, extents=(4,)), region(X, 0, extents=(4,)))
    commit(k)
    k.store(OUT, k.lid, k.load(tile, k.lid))
    k.store(X, k.lid, 9)
    wait(k)
    k.barrier()
    k.store(OUT, e.Binary("add", k.lid, e.Const(4, dt.int32)), k.load(tile, k.lid))
    return k


@pytest.mark.parametrize("target", [None, CUDA])
@pytest.mark.parametrize(("completion", "seen"), [("early", (1, 1)), ("late", (7, 9))])
def test_copies_land_when_they_should(
    completion: str, seen: tuple[int, int], target: Capabilities | None
) -> None:
    x, out = np.ones(4, np.int32), np.zeros(8, np.int32)
    kernel = hasty().build()
    with sim.checks(completion=completion, copies=False, races=False):
        sim.run(kernel, (1, 1, 1), (x, out), target=target)
    assert out.tolist() == [seen[0]] * 4 + [seen[1]] * 4
    with sim.checks(completion=completion), pytest.raises(AsyncCopyError):
        sim.run(kernel, (1, 1, 1), (x, out), target=target)


def test_copies_land_at_random() -> None:
    found = set()
    for seed in range(20):
        x, out = np.ones(4, np.int32), np.zeros(8, np.int32)
        with sim.checks(completion="random", seed=seed, copies=False, races=False):
            sim.run(hasty().build(), (1, 1, 1), (x, out))
        found.add((int(out[0]), int(out[4])))
    assert found == {(1, 1), (7, 9)}


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_SIM_COMPLETION", "early")
    monkeypatch.setenv("PORTABLE_SIM_TURNS", "last")
    assert (sim.Settings().completion, sim.Settings().turns) == ("early", "last")
    monkeypatch.setenv("PORTABLE_SIM_TURNS", "fair")
    with pytest.raises(LaunchError, match="'fair'; it must be one of random, first, last"):
        sim.Settings()


def _waits(turns: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Who gets past an mbarrier, in order: f for a filled slot, e for an empty one."""
    from sim.test_warp_specialisation import lowered

    def told(x: s.Statement) -> s.Block:
        if not isinstance(x, s.Instruction) or x.name != "mbarrier.wait":
            return (x,)
        word = "f" if x.addresses[0][0].name == "filled" else "e"
        first = e.Compare("eq", _modulo(), e.Const(0, dt.int32))
        return x, s.If(first, (s.Print((word,), x.loc),), (), x.loc)

    a, b = operands(64, 64, 320, dt.float16, "rr")
    arguments: list[Any] = [a, b, np.zeros((64, 64), np.float32)]
    with sim.checks(turns=turns, completion="early", seed=1):
        sim.run(planted(lowered("engine"), told), (1, 1, 1), arguments)
    return "".join(capsys.readouterr().out.split())


def _modulo() -> e.Expression:
    return e.Binary("mod", e.WorkItem("local_id", 0, dt.int32), e.Const(128, dt.int32))


def test_whose_turn_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Those who multiply are the lowest work-items, so that each slot is used when it is there."""
    assert _waits("first", capsys).startswith("efef")
    assert _waits("last", capsys).startswith("eeef")


# -- every ring of copies -------------------------------------------------------------------------

_ROUNDS = 5


def ring(slots: int, ahead: int, pending: int, before: bool, after: bool) -> K:
    """Tiles pass through a ring; `before` and `after` the reads of a round there are barriers."""
    k = K(X, OUT, workgroup=4)
    tile = k.local("tile", (slots, 4), dt.int32)

    def fetch(number: Any) -> None:
        number = number if isinstance(number, e.Expression) else const(number)
        slot, start = binary("mod", number, slots), binary("mul", number, 4)
        copy(k, region(tile, slot, 0, extents=(None, 4)), region(X, start, extents=(4,)))
        commit(k)

    for number in range(ahead):
        fetch(number)
    with k.range(0, _ROUNDS) as i:
        fetch(binary("add", i, ahead))
        wait(k, pending)
        if before:
            k.barrier()
        found = k.load(tile, binary("mod", i, slots), binary("xor", k.lid, 1))
        k.store(OUT, binary("add", binary("mul", i, 4), k.lid), found)
        if after:
            k.barrier()
    return k


def is_right(slots: int, ahead: int, pending: int, before: bool, after: bool) -> bool:
    """Enough slots and waits, and a barrier between each copy and reads, and reads and a copy."""
    return ahead < slots and pending <= ahead and before and (after or ahead + 1 < slots)


def bulk_ring(slots: int, ahead: int, after: bool, turned: bool) -> K:
    """The same with bulk copies by one work-item; `turned`: the phase is the other one."""
    k = K(X, OUT, workgroup=4)
    tile, arrived = k.local("tile", (slots, 4), dt.int32), k.local("arrived", (slots,), dt.uint64)

    def fetch(number: Any) -> None:
        number = number if isinstance(number, e.Expression) else const(number)
        slot, start = binary("mod", number, slots), binary("mul", number, 4)
        with k.when(compare("eq", k.lid, 0)), k.when(compare("lt", number, _ROUNDS)):
            target = (tile, (slot, const(0)))
            k.add(s.BulkCopy(*target, X, (start,), const(4), arrived, slot, k.loc))

    for number in range(ahead):
        fetch(number)
    with k.range(0, _ROUNDS) as i:
        fetch(binary("add", i, ahead))
        slot, phase = binary("mod", i, slots), binary("mod", binary("floordiv", i, slots), 2)
        k.add(s.BulkWait(arrived, slot, binary("xor", phase, int(turned)), k.loc))
        found = k.load(tile, slot, binary("xor", k.lid, 1))
        k.store(OUT, binary("add", binary("mul", i, 4), k.lid), found)
        if after:
            k.barrier()
    return k


def is_bulk_right(slots: int, ahead: int, after: bool, turned: bool) -> bool:
    """The wait is a barrier too."""
    return ahead < slots and (after or ahead + 1 < slots) and not turned


def _outcome(kernel: Kernel, target: Capabilities | None) -> bool:
    x, out = np.arange(4 * _ROUNDS, dtype=np.int32), np.zeros(4 * _ROUNDS, np.int32)
    try:
        sim.run(kernel, (1, 1, 1), (x, out), target=target)
    except FaultError:
        return False
    assert (out == x ^ 1).all()
    return True


@pytest.mark.parametrize("completion", ["early", "late", "random"])
@pytest.mark.parametrize("target", [None, CUDA], ids=["as written", "as emitted"])
def test_every_ring_is_accepted_if_and_only_if_it_is_right(
    target: Capabilities | None, completion: str
) -> None:
    rings = itertools.product((1, 2, 3), (0, 1, 2), (0, 1, 2), (True, False), (True, False))
    with sim.checks(completion=completion):
        wrong = [x for x in rings if _outcome(ring(*x).build(), target) != is_right(*x)]
        bulks = itertools.product((1, 2, 3), (0, 1, 2, 3), (True, False), (True, False))
        wrong += [x for x in bulks if _outcome(bulk_ring(*x).build(), target) != is_bulk_right(*x)]
    assert not wrong
