"""Loads that the way back does again: each must find what it found the first time.

A round of a loop is run forwards once more on the way back, when everything after the loop has been
done. What it loads is still there where nothing in the loop or after it writes the array, or where
the round itself wrote it before. All else is written down (`logs`), or refused.

Whether a round reads only what it has written is worked out for each work-item
(`writes_what_it_reads`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from portable.gradients.adjoint.host_values import Known, value_of
from portable.gradients.adjoint.names import refuse
from portable.gradients.adjoint.rounds import Rounds
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, Vector
from portable.lang.ir.walks import all_statements

_MOST: Final = 1 << 23
"""Work-items times elements that are looked at."""

_ROUNDS: Final = 4096


def writes_what_it_reads(kernel: Kernel, body: s.Block, load: s.Load) -> bool:
    """Whether every element that a load reads was written before in the same round.

    Parameters
    ----------
    kernel : Kernel
        A flat program.
    body : Block
        Of the loop.
    load : Load
        In it, of a local or private array.
    """
    array = load.array
    items = prod(kernel.workgroup)
    size = prod(array.shape)
    if array.space == "global" or items * size > _MOST:
        return False
    made = _Coverage(kernel, array, load)
    made.run(body, np.ones(items, bool), np.zeros((items, size), bool))
    return made.proved


class _Coverage:
    """Goes through a round up to a load.

    Attributes
    ----------
    proved : bool
        Whether all that it reads was surely written, each time that it was reached.
    """

    def __init__(self, kernel: Kernel, array: Array, load: s.Load) -> None:
        self.proved = False
        self._reached = False
        self._array = array
        self._load = load
        self._items = prod(kernel.workgroup)
        self._values: dict[str, Known] = {}
        places = np.unravel_index(np.arange(self._items), kernel.workgroup[::-1])
        self._local = [np.asarray(p, np.int64) for p in reversed(places)]
        self._know(kernel.body)

    def _know(self, block: s.Block) -> None:
        """Works out what names outside of the loop are."""
        for x in block:
            if isinstance(x, s.Let):
                self._values[x.var.name] = self._value(x.value)
            for part in x.blocks():
                self._know(part)

    def run(self, block: s.Block, active: Known, written: Any) -> Any:
        """What is surely written after a block, by work-item and element."""
        for x in block:
            match x:
                case s.Let():
                    self._values[x.var.name] = self._value(x.value)
                case s.Load() if x is self._load:
                    self._reach(x, active, written)
                case s.Store() if x.array is self._array:
                    written = self._write(x, active, written)
                case s.If():
                    written = self._if(x, active, written)
                case Rounds():
                    written = self._rounds(x, active, written)
        return written

    def _reach(self, x: s.Load, active: Known, written: Any) -> None:
        elements = list(self._elements(x.index, x.axis, x.var))
        if active is None:
            active = np.ones(self._items, bool)
        if any(element is None for element in elements):
            needed = np.broadcast_to(active[:, None], written.shape)
        else:
            needed = np.zeros_like(written)
            for element in elements:
                needed[np.flatnonzero(active), element[active]] = True
        if self._array.space == "local":
            fine = bool(np.all(written.any(0) | ~needed.any(0)))
        else:
            fine = bool(np.all(written | ~needed))
        self.proved = fine and (self.proved or not self._reached)
        self._reached = True

    def _write(self, x: s.Store, active: Known, written: Any) -> Any:
        if active is None:
            return written
        written = written.copy()
        for element in self._elements(x.index, x.axis, x.value):
            if element is not None:
                written[np.flatnonzero(active), element[active]] = True
        return written

    def _elements(
        self, index: tuple[e.Expression, ...], axis: int, value: e.Expression
    ) -> Iterator[Known]:
        """The number of the element for each work-item, for each lane."""
        elements = [self._value(i) for i in index]
        several = isinstance(value.type, Vector) and self._array.lanes == 1
        lanes = value.type.lanes if several and isinstance(value.type, Vector) else 1
        for lane in range(lanes):
            if any(i is None for i in elements):
                yield None
                continue
            moved = [i + lane if d == axis % len(elements) else i for d, i in enumerate(elements)]
            inside = [np.clip(i, 0, n - 1) for i, n in zip(moved, self._array.shape, strict=True)]
            yield np.ravel_multi_index(inside, self._array.shape)

    def _if(self, x: s.If, active: Known, written: Any) -> Any:
        condition = self._value(x.condition)
        if condition is None:
            then = self.run(x.then, active, written)
            return then & self.run(x.orelse, active, written)
        some = None if active is None else active & condition
        others = None if active is None else active & ~condition
        then = self.run(x.then, some, written)
        return then | self.run(x.orelse, others, written)

    def _rounds(self, x: Rounds, active: Known, written: Any) -> Any:
        bounds: list[Known] = [self._value(y) for y in x.bounds or ()]
        if x.var is None or x.going is not None or any(y is None for y in bounds):
            self._forget(x)
            self.run(x.body, None, written)
            return written
        at, stop, step = bounds
        if np.any(step == 0):
            return written
        for _ in range(_ROUNDS):
            inside = np.where(step > 0, at < stop, at > stop)
            if not inside.any():
                return written
            self._values[x.var.name] = at
            written = self.run(x.body, None if active is None else active & inside, written)
            at = at + step
        self._forget(x)
        self.run(x.body, None, written)
        return written

    def _forget(self, x: Rounds) -> None:
        if x.var is not None:
            self._values[x.var.name] = None

    # -- values ----------------------------------------------------------------------------

    def _value(self, x: e.Expression) -> Known:
        return value_of(x, self._leaf)

    def _leaf(self, x: e.Expression) -> Known:
        match x:
            case e.Const():
                return np.broadcast_to(np.asarray(x.value), self._items)
            case e.Variable():
                return self._values.get(x.name)
            case e.WorkItem(word="local_id"):
                return self._local[x.dim]
            case _:
                return None


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
