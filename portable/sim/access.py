"""Plain loads and stores, checks, and printing."""

from __future__ import annotations

from typing import Final

import numpy as np

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import lanes_of, scalar_of
from portable.sim import report
from portable.sim.group import Site
from portable.sim.memory import Access, advanced, locate, read, write
from portable.sim.values import Value
from portable.sim.workgroup import Builder, Evaluate, Plain, Step, Workgroup, step

_KEPT: Final = 256
"""Of a statement, so many places of a workgroup's own array are kept."""


class _Place:
    """Where a load or store goes: which components of which elements, per work-item."""

    def __init__(self, statement: s.Load | s.Store, lanes: int, b: Builder) -> None:
        self._site: Site = b.site(statement.loc, statement.array)
        self._index: tuple[Evaluate, ...] = b.expressions(statement.index, self._site)
        self._lanes = lanes
        self._axis = statement.axis % max(statement.array.ndim, 1)
        self._whole = statement.array.lanes > 1
        self._component = statement.component or 0
        self._runs_on = statement.runs_on
        self._array = statement.array
        self._keeps = statement.array.space != "global" and not statement.runs_on
        self._fixed = all(isinstance(x, e.Const) for x in statement.index)
        self._known: dict[tuple[bytes, ...], tuple[tuple[Value, ...], Value, Value]] = {}

    def access(self, w: Workgroup) -> Access:
        """The components that the active work-items mean.

        All workgroups lay their own arrays out alike, and loops come to the same places again,
        which are found once.
        """
        index = tuple([i(w) for i in self._index])
        if not self._keeps or not w.active.full:
            return self._found(w, index)
        key = () if self._fixed else tuple([i.tobytes() for i in index])
        where = self._known.get(key)
        if where is not None:
            return Access(self._site, w.buffers[self._array], *where, None)
        access = self._found(w, index)
        if access.kept is None and len(self._known) < _KEPT:
            self._known[key] = access.index, access.items, access.offsets
        return access

    def _found(self, w: Workgroup, index: tuple[Value, ...]) -> Access:
        items, component = w.active.ids, self._component
        if not w.active.full:
            index = tuple([i[items] for i in index])
        if self._runs_on:
            *lead, last = (i.astype(np.int64) for i in index)
            extents = w.buffers[self._site.array].extents  # type: ignore[index]
            index = advanced([*lead, np.zeros_like(last)], last, extents)
        if self._lanes == 1:
            return locate(w, self._site, index, items, component)
        lane = np.arange(self._lanes * items.size) % self._lanes
        wide = [i.astype(np.int64).repeat(self._lanes) for i in index]
        items = items.repeat(self._lanes)
        if self._whole:
            return locate(w, self._site, tuple(wide), items, lane)
        wide[self._axis] += lane
        return locate(w, self._site, tuple(wide), items, component)


@step.register
def _(statement: s.Load, b: Builder) -> Step:
    lanes, name = lanes_of(statement.var.type), statement.var.name
    register = scalar_of(statement.var.type).numpy
    location = _Place(statement, lanes, b)

    def run(w: Workgroup) -> None:
        texts = read(w, location.access(w)).astype(register, copy=False)
        w.bind(name, texts if lanes == 1 else texts.reshape(-1, lanes))

    return Plain(run)


@step.register
def _(statement: s.Store, b: Builder) -> Step:
    position = _Place(statement, lanes_of(statement.value.type), b)
    value = b.expression(statement.value, b.site(statement.loc))
    storage = statement.array.dtype.real.numpy

    def run(w: Workgroup) -> None:
        narrowed: Value = w.active.pick(value(w)).astype(storage, copy=False)
        write(w, position.access(w), narrowed.reshape(-1))

    return Plain(run)


@step.register
def _(statement: s.Check, b: Builder) -> Step:
    site = b.site(statement.loc)
    condition = b.expression(statement.condition, site)

    def run(w: Workgroup) -> None:
        failed = w.active.ids[~w.active.pick(condition(w))]
        if failed.size:
            raise report.failed_check(w, site, statement.message, failed)

    return Plain(run)


@step.register
def _(statement: s.Print, b: Builder) -> Step:
    site = b.site(statement.loc)
    pieces = tuple(
        piece if isinstance(piece, str) else b.expression(piece, site) for piece in statement.pieces
    )

    def run(w: Workgroup) -> None:
        result = [piece if isinstance(piece, str) else piece(w) for piece in pieces]
        for item in w.active.ids.tolist():
            line = "".join(x if isinstance(x, str) else str(x[item]) for x in result)
            print(line)  # noqa: T201  (this is what kl.print is for)

    return Plain(run)
