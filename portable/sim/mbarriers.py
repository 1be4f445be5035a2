"""Instructions on mbarriers: who arrives, announces bytes, and waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from portable.lang.ir import statements as s
from portable.lang.ir.types import Array
from portable.sim import report
from portable.sim.copies import MBarrier
from portable.sim.instructions import instruction
from portable.sim.launch import Site
from portable.sim.memory import Access, locate
from portable.sim.shadow import AccessKind
from portable.sim.steps import Builder, Pauses, Plain, Step
from portable.sim.values import Value
from portable.sim.workgroup import Pause, Running, Workgroup


class Place:
    """The mbarrier that an instruction names."""

    def __init__(
        self,
        array: Array,
        index: tuple[object, ...],
        statement: s.Instruction,
        b: Builder,
    ) -> None:
        self.site: Site = b.site(statement.loc, array)
        self._index = b.expressions(index, self.site)

    def access(self, w: Workgroup, items: Value) -> Access:
        """The elements that work-items name."""
        return locate(w, self.site, tuple(i(w)[items] for i in self._index), items)

    def each(
        self, w: Workgroup, items: Value, kind: AccessKind
    ) -> Iterator[tuple[MBarrier, Value]]:
        """Every mbarrier that some of these work-items name, and who they are."""
        access = self.access(w, items)
        if access.buffer.shadow is not None:
            access.buffer.shadow.access(w, access, kind)
        for element in np.unique(access.offsets).tolist():
            yield self._found(w, element), access.items[access.offsets == element]

    def _found(self, w: Workgroup, element: int) -> MBarrier:
        assert self.site.array is not None
        key = self.site.array, element
        barrier = w.mbarriers.get(key)
        if barrier is None:
            number = w.launch.survey.mbarriers[key]
            barrier = w.mbarriers[key] = MBarrier(number, 1, 1)
        return barrier


def place(statement: s.Instruction, b: Builder) -> Place:
    """The only one that an instruction is given."""
    ((array, index),) = statement.addresses
    return Place(array, index, statement, b)


@instruction("mbarrier.init")
def _(statement: s.Instruction, b: Builder) -> Step:
    location = place(statement, b)
    count = b.expressions(statement.inputs, location.site)

    def run(w: Workgroup) -> None:
        for mbarrier, items in location.each(w, w.active.ids, "write"):
            mbarrier.count = int(count[0](w)[items[0]]) if count else 1
            mbarrier.missing = mbarrier.count

    return Plain(run)


@instruction("mbarrier.init_fence")
def _(statement: s.Instruction, b: Builder) -> Step:
    return Plain(lambda w: w.proxies.fence(w))


_Action = Callable[[Workgroup, Site, MBarrier, Value, int], None]


def _acting(action: _Action) -> Callable[[s.Instruction, Builder], Step]:
    """The step of what work-items do to the mbarriers that they name, given an input if any."""

    def made(statement: s.Instruction, b: Builder) -> Step:
        location = place(statement, b)
        inputs = b.expressions(statement.inputs, location.site)

        def run(w: Workgroup) -> Running:
            if w.strands is not None:
                yield Pause(location.site, False, _always)
            given = inputs[0](w) if inputs else np.zeros(w.size, np.int64)
            for mbarrier, items in location.each(w, w.active.ids, "atomic update"):
                action(w, location.site, mbarrier, items, int(given[items].sum()))

        return Pauses(run)

    return made


def _always() -> bool:
    return True


def _expect(w: Workgroup, site: Site, mbarrier: MBarrier, items: Value, size: int) -> None:
    mbarrier.announce(w, site, items, size)


def _arrive(w: Workgroup, site: Site, mbarrier: MBarrier, items: Value, size: int) -> None:
    mbarrier.bytes += size
    mbarrier.arrive(w, site, items)


def _arrive_copied(w: Workgroup, site: Site, mbarrier: MBarrier, items: Value, size: int) -> None:
    mbarrier.follow(w, site, w.copies.started_by(items), items.size)


instruction("mbarrier.expect_tx")(_acting(_expect))
instruction("mbarrier.arrive", "mbarrier.arrive.expecting")(_acting(_arrive))
instruction("mbarrier.arrive.copied")(_acting(_arrive_copied))


@instruction("mbarrier.wait")
def _(statement: s.Instruction, b: Builder) -> Step:
    position = place(statement, b)
    (parity,) = b.expressions(statement.inputs, position.site)

    def run(w: Workgroup) -> Running:
        wanted = parity(w)
        for mbarrier, items in position.each(w, w.active.ids, "atomic read"):
            which = int(wanted[items[0]])
            if (wanted[items] != which).any() and w.settings.uniform:
                mine = wanted[items]
                what = "the phase that an mbarrier is waited for"
                raise report.not_uniform(w, position.site, what, mine, np.full_like(mine, which))
            yield from until(w, position.site, lambda m=mbarrier, p=which: m.passed(p))  # type: ignore[misc]
            mbarrier.observe(w, items)

    return Pauses(run)


def until(w: Workgroup, site: Site, passed: Callable[[], bool]) -> Running:
    """Wait; where no other strand could help, copies alone can."""
    if w.strands is not None:
        yield Pause(site, False, passed)
    while w.strands is None and not passed():
        if w.engine.advance(w):
            continue
        if w.settings.waits:
            raise report.endless_wait(w, site, report.NOBODY_COMES)
        return
