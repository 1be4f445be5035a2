"""Branches that wait for each other at mbarriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable import sim
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array
from portable.sim.errors import (
    AsyncCopyError,
    EndlessWaitError,
    NotUniformError,
    RaceError,
)
from sim.build import K, binary, compare, const, global_array

OUT, FLAG = global_array("out", dt.int32), global_array("flag", dt.int32)
HALF = 128


class Apart(K):
    """A workgroup of two warpgroups with mbarriers for some arrivals each."""

    def __init__(self, *parameters: Any, arrivals: tuple[int, ...]) -> None:
        super().__init__(*parameters, workgroup=2 * HALF)
        self.slots: Array = self.local("slots", (len(arrivals),), dt.uint64)
        with self.when(compare("eq", self.lid, 0)):
            for slot, count in enumerate(arrivals):
                self.instruct("mbarrier.init.many", slot, const(count))
        self.barrier()

    def instruct(self, name: str, slot: Any, *inputs: e.Expression) -> None:
        slot = slot if isinstance(slot, e.Expression) else const(slot)
        self.add(s.Instruction(name, self.loc, inputs=inputs, addresses=((self.slots, (slot,)),)))

    def arrive(self, slot: Any) -> None:
        self.instruct("mbarrier.arrive", slot)

    def wait(self, slot: Any, phase: Any = 0) -> None:
        self.instruct(
            "mbarrier.wait", slot, phase if isinstance(phase, e.Expression) else const(phase)
        )

    def first(self) -> Any:
        return self.when(compare("lt", self.lid, HALF))


def run(k: K, groups: int = 1) -> Any:
    out, flag = np.zeros(2 * HALF, np.int32), np.zeros(1, np.int32)
    sim.run(k.build(), (groups, 1, 1), (out, flag))
    return out


def handed_on(*, arrives: bool = True, waits: bool = True) -> Apart:
    """One half writes, the other reads what it wrote; both leave a number in a variable."""
    k = Apart(OUT, FLAG, arrivals=(HALF,))
    tile, n = k.local("tile", (HALF,), dt.int32), k.variable("n")
    k.assign(n, 5)
    with k.first():
        if waits:
            k.wait(0)
        k.assign(n, k.load(tile, binary("xor", k.lid, 1)))
    with k.otherwise():
        k.wait(0, 1)
        own = k.let(binary("sub", k.lid, HALF))
        k.store(tile, own, own)
        if arrives:
            k.arrive(0)
        with k.when(compare("lt", own, 3)):
            k.assign(n, 9)
    k.store(OUT, k.lid, n)
    return k


@pytest.mark.parametrize("turns", ["first", "last", "random"])
def test_what_one_half_hands_on(turns: str) -> None:
    with sim.checks(turns=turns):
        found = run(handed_on())
    assert (found[:HALF] == np.arange(HALF) ^ 1).all()
    assert found[HALF : HALF + 4].tolist() == [9, 9, 9, 5]


def test_what_is_not_handed_on() -> None:
    with pytest.raises(EndlessWaitError, match="completes the phase"):
        run(handed_on(arrives=False))
    with sim.checks(turns="last"), pytest.raises(RaceError, match="race on tile"):
        run(handed_on(waits=False))


def test_nobody_waits_where_waits_are_not_checked() -> None:
    with sim.checks(waits=False, races=False, uninitialised=False):
        run(handed_on(arrives=False))


def test_more_arrivals_than_expected() -> None:
    k = Apart(OUT, FLAG, arrivals=(HALF - 1,))
    k.arrive(0)
    with pytest.raises(AsyncCopyError, match="more than the 127 arrivals"):
        run(k)


def test_different_phases_are_waited_for() -> None:
    k = Apart(OUT, FLAG, arrivals=(1,))
    k.wait(0, binary("mod", k.lid, 2))
    with pytest.raises(NotUniformError, match="the phase"):
        run(k)


def test_a_ring_between_the_halves() -> None:
    """Four rounds through two slots, each used again when it was read; in branches of branches."""
    k = Apart(OUT, FLAG, arrivals=(1, 1, HALF, HALF))
    tile = k.local("tile", (2,), dt.int32)
    with k.first(), k.when(compare("eq", k.lid, 0)), k.range(0, 4) as i:
        slot, turn = binary("mod", i, 2), binary("floordiv", i, 2)
        k.wait(binary("add", slot, 2), binary("mod", binary("add", turn, 1), 2))
        k.store(tile, slot, binary("mul", i, 10))
        k.arrive(slot)
    with k.otherwise(), k.range(0, 4) as i:
        slot, turn = binary("mod", i, 2), binary("floordiv", i, 2)
        k.wait(slot, binary("mod", turn, 2))
        value = k.load(tile, slot)
        with k.when(compare("eq", binary("mod", k.lid, HALF), i)):
            k.store(OUT, i, value)
        k.arrive(binary("add", slot, 2))
    assert run(k)[:5].tolist() == [0, 10, 20, 30, 0]


def test_a_half_that_waits_for_another_workgroup() -> None:
    """The others of its workgroup go on, and so do other workgroups."""
    k = Apart(OUT, FLAG, arrivals=(1,))
    with k.first(), k.when(compare("eq", k.lid, 0)):
        with k.when(compare("eq", k.group, 0)):
            k.atomic("store", FLAG, 0, 1, order="release")
        with k.otherwise():
            k.spin_until(FLAG, 0, 1)
        k.arrive(0)
    with k.otherwise():
        k.wait(0)
        k.atomic("add", OUT, binary("sub", k.lid, HALF), 1)
    assert (run(k, 2)[:HALF] == 2).all()
