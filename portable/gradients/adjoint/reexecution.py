"""Loads that the way back does again: each must find what it found the first time.

A round of a loop is run forwards once more on the way back, when everything after the loop has been
done. What it loads is still there where nothing in the loop or after it writes the array, or where
the round itself wrote it before. All else is written down (`logs`), or refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from portable.gradients.adjoint.coverage import writes_what_it_reads
from portable.gradients.adjoint.names import refuse
from portable.gradients.adjoint.rounds import Rounds
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, all_statements
from portable.lang.ir.types import Array


@dataclass(frozen=True, slots=True)
class Again:
    """A load that is done again.

    Attributes
    ----------
    load : Load
        In the flat program.
    depth : int
        In how many loops around each other, from the outermost, rounds are run again.
    """

    load: s.Load
    depth: int


def refuse_stale(program: Kernel, adjoint: Kernel, again: Mapping[str, Again]) -> None:
    """Refuses loads that would find something else.

    Parameters
    ----------
    program : Kernel
        The flat program.
    adjoint : Kernel
        What is left of its adjoint.
    again : mapping
        Loads that are done again, by the names that they bind in the adjoint.

    Raises
    ------
    KernelError
        With the line of the first.
    """
    written = {y for x in all_statements(program.body) for y in x.written()}
    left = [
        again[x.var.name]
        for x in all_statements(adjoint.body)
        if isinstance(x, s.Load) and x.var.name in again
    ]
    checked: set[tuple[int, int]] = set()
    for statement in left:
        key = id(statement.load), statement.depth
        if statement.load.array in written and key not in checked:
            checked.add(key)
            _check(program, statement)


def stale(program: Kernel) -> list[s.Load]:
    """The loads in loops that might find something else when a round is run again."""
    written = {y for x in all_statements(program.body) for y in x.written()}
    return [
        x
        for x in all_statements(program.body)
        if isinstance(x, s.Load) and x.array in written and _first_stale(program, x) is not None
    ]


def covered(program: Kernel, again: Mapping[str, Again]) -> frozenset[str]:
    """The names of loads that read only what the same round of their outermost loop has written.

    Parameters
    ----------
    program : Kernel
        The flat program.
    again : mapping
        Loads that are done again, by the names that they bind in the adjoint.
    """
    written = {y for x in all_statements(program.body) for y in x.written()}
    known: dict[int, bool] = {}
    out: set[str] = set()
    for name, covered_here in again.items():
        load = covered_here.load
        if load.array.space == "global" or load.array not in written:
            continue
        if id(load) not in known:
            path = _path(program.body, load)
            assert path is not None
            outermost = next(block[at] for block, at in path if isinstance(block[at], Rounds))
            known[id(load)] = _written_before(program, outermost, load)
        if known[id(load)]:
            out.add(name)
    return frozenset(out)


def _check(program: Kernel, gathered: Again) -> None:
    depth = _first_stale(program, gathered.load)
    if depth is not None and depth < gathered.depth:
        array = gathered.load.array
        refuse(
            f"through this load in a loop: {array.name} is written in the loop or after it, so "
            "that its value of then is gone",
            gathered.load,
            "load single numbers, or write to another array",
        )


def _first_stale(program: Kernel, load: s.Load) -> int | None:
    """In how many loops a load is, where rounds of the next one find something else in it."""
    path = _path(program.body, load)
    assert path is not None
    loops = [(block, at) for block, at in path if isinstance(block[at], Rounds)]
    for depth in range(len(loops)):
        if not _same(program, path, loops, depth, load):
            return depth
    return None


_Path = list[tuple[s.Block, int]]


def _path(block: s.Block, load: s.Load) -> _Path | None:
    """The blocks around a statement, from the outermost, and where in each it is."""
    for at, x in enumerate(block):
        if x is load:
            return [(block, at)]
        for part in x.blocks():
            inner = _path(part, load)
            if inner is not None:
                return [(block, at), *inner]
    return None


def _same(program: Kernel, path: _Path, loops: _Path, depth: int, load: s.Load) -> bool:
    """Whether rounds of one of the loops around a load find the same in it when run again."""
    if any(_written_before(program, block[at], load) for block, at in loops[depth:]):
        return True
    start = path.index(loops[depth])
    block, at = loops[depth]
    if _writes((block[at],), load.array):
        return False
    outer = [
        i for i, (held, position) in enumerate(path[:start]) if isinstance(held[position], Rounds)
    ]
    first = outer[-1] + 1 if outer else 0
    return not any(
        _writes(held[position + 1 :], load.array) for held, position in path[first : start + 1]
    )


def _writes(block: s.Block, array: Array) -> bool:
    return any(array in x.written() for x in all_statements(block))


def _written_before(program: Kernel, loop: s.Statement, load: s.Load) -> bool:
    """Whether a round of a loop surely writes what the load in it reads."""
    assert isinstance(loop, Rounds)
    if writes_what_it_reads(program, loop.body, load):
        return True
    path: Final = _path(loop.body, load)
    assert path is not None
    return any(
        isinstance(x, s.Store)
        and x.array is load.array
        and x.index == load.index
        and x.value.type == load.var.type
        and x.component == load.component
        for block, at in path
        for x in block[:at]
    )
