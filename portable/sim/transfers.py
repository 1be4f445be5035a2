"""The statements that copy between global and local memory, and wait for copies."""

from __future__ import annotations

import numpy as np

from portable.errors import Location
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array
from portable.sim import report
from portable.sim.copies import Transfer
from portable.sim.evaluation import Evaluate, check_uniform
from portable.sim.fragments import Part
from portable.sim.launch import Site
from portable.sim.memory import Access, advanced, locate
from portable.sim.steps import Builder, Plain, Step, step
from portable.sim.values import Value
from portable.sim.workgroup import Workgroup


@step.register
def _(statement: s.CopyTile, b: Builder) -> Step:
    parts = tuple(
        Part(region, b.site(statement.loc, region.array), b)
        for region in (statement.source, statement.target)
    )

    def run(w: Workgroup) -> None:
        w.meet(parts[0].site, "a copy of a tile")
        source, target = (_whole_tile(w, part) for part in parts)
        if statement.asynchronous:
            w.copies.add(w, source, target, w.active.ids)
        else:
            transfer = Transfer(source, target, w.active.ids, w.active.ids)
            transfer.begin(w)
            transfer.end(w)

    return Plain(run)


def _whole_tile(w: Workgroup, part: Part) -> Access:
    """The region, accessed by the workgroup together."""
    starts = part.starts(w)
    if w.settings.uniform:
        for start in starts.T:
            check_uniform(w, part.site, "where a tile starts", start)
    access = part.access(w, starts[w.active.ids[:1]], np.array([w.launch.threads.copy]))
    access.together = True
    return access


class Run:
    """Some neighbours of an array from an index on, per work-item.

    Attributes
    ----------
    site : Site
        The statement that accesses them.
    itemsize : int
        Bytes of an element.
    """

    def __init__(self, array: Array, index: tuple[object, ...], loc: Location, b: Builder) -> None:
        self.site = b.site(loc, array)
        self.itemsize = array.dtype.itemsize
        self._index: tuple[Evaluate, ...] = b.expressions(index, self.site)

    def addresses(self, w: Workgroup) -> Value:
        """Where in memory each work-item's begins, in bytes."""
        array = self.site.array
        assert array is not None
        buffer = w.buffers[array]
        elements = buffer.elements(tuple(i(w).astype(np.int64) for i in self._index))
        local = array.space == "local"
        first = w.launch.survey.addresses[array] if local else buffer.data.ctypes.data
        addresses: Value = np.asarray(first + elements * self.itemsize)
        return addresses

    def _reached(self, w: Workgroup, index: list[Value], steps: Value) -> tuple[Value, ...]:
        """Indices so many elements further, from row to row."""
        extents = w.buffers[self.site.array].extents  # type: ignore[index]
        return advanced(index, steps, extents)

    def access(self, w: Workgroup, items: Value, steps: Value, wanted: Value) -> Access:
        """Entry by entry the element `steps` after the start of a work-item, where wanted."""
        at, step_ = items[wanted], steps[wanted]
        index = self._reached(w, [i(w)[at].astype(np.int64) for i in self._index], step_)
        width = w.buffers[self.site.array].width  # type: ignore[index]
        component: Value | int = 0
        if width > 1:
            index = tuple(i.repeat(width) for i in index)
            component = np.arange(width * at.size) % width
            at, wanted = at.repeat(width), wanted.repeat(width)
        access = locate(w, self.site, index, at, component)
        if not wanted.all():
            inside, access.kept = access.kept, wanted.copy()
            if inside is not None:
                access.kept[wanted] = inside
        return access


class Vector(Run):
    """Neighbours in memory, along the axis on which they are neighbours."""

    def _reached(self, w: Workgroup, index: list[Value], steps: Value) -> tuple[Value, ...]:
        index[_contiguous_axis(self.site.array)] += steps
        return tuple(index)


def _contiguous_axis(array: Array | None) -> int:
    """The axis along which elements are neighbours, the last of several."""
    assert array is not None
    strides: list[object] = list(array.strides)
    if array.layout is not None:
        # Along axes of one element nobody steps, whatever their strides.
        pairs = zip(array.layout.strides, array.shape, strict=True)
        strides = ["unit" if stride == 1 and extent > 1 else "any" for stride, extent in pairs]
    last = len(strides) - 1
    return last - strides[::-1].index("unit") if "unit" in strides else last


@step.register
def _(statement: s.CopyVector, b: Builder) -> Step:
    source = Vector(statement.source, statement.source_index, statement.loc, b)
    target = Vector(statement.target, statement.target_index, statement.loc, b)
    valid, lanes = b.expression(statement.valid, b.site(statement.loc)), statement.lanes
    outward = statement.target.space == "global"
    size = lanes * statement.target.dtype.itemsize

    def run(w: Workgroup) -> None:
        items = w.active.ids.repeat(lanes)
        steps = np.arange(lanes * w.active.count) % lanes
        copied = steps < valid(w)[items]
        stored = copied if outward else np.ones_like(copied)
        _check_aligned(w, (source, target), size)
        w.copies.add(
            w,
            source.access(w, items, steps, copied),
            target.access(w, items, steps, stored),
            w.active.ids,
        )

    return Plain(run)


def _check_aligned(w: Workgroup, ends: tuple[Run, Run], size: int) -> None:
    """Addresses of what a work-item copies at once are multiples of its size."""
    if not w.settings.copies:
        return
    for end in ends:
        askew = w.active.pick(end.addresses(w)) % size != 0
        if askew.any():
            raise report.misaligned(w, end.site, w.active.ids[askew], size=size)


@step.register
def _(statement: s.CopyCommit, b: Builder) -> Step:
    return Plain(lambda w: w.copies.commit(w.active.ids))


@step.register
def _(statement: s.CopyWait, b: Builder) -> Step:
    return Plain(lambda w: w.copies.wait(w, w.active.ids, statement.pending))


@step.register
def _(statement: s.BulkCopy, b: Builder) -> Step:
    source = Run(statement.source, statement.source_index, statement.loc, b)
    target = Run(statement.target, statement.target_index, statement.loc, b)
    count = b.expression(statement.count, b.site(statement.loc))
    slots = _Slots(statement.completion, statement.slot, statement.loc, b)

    def run(w: Workgroup) -> None:
        for item in w.active.ids:
            elements = max(int(count(w)[item]), 0)
            items, steps = np.full(elements, item), np.arange(elements)
            every = np.ones(elements, np.bool_)
            ends = [end.access(w, items, steps, every) for end in (source, target)]
            check_contiguous(w, ends)
            slots.start(w, ends[0], ends[1], np.array([item]))

    return Plain(run)


def check_contiguous(w: Workgroup, ends: list[Access]) -> None:
    """Report a bulk copy of elements that do not follow each other in memory."""
    for access in ends:
        if w.settings.copies and (np.diff(access.offsets) != 1).any():
            raise report.not_contiguous(w, access)


class _Slots:
    """The completion slots of a statement; None: commit and wait order its copies."""

    def __init__(self, completion: Array | None, slot: object, loc: Location, b: Builder) -> None:
        self._array = completion
        self.site: Site = b.site(loc, completion)
        self._slot = None if completion is None else b.expressions((slot,), self.site)[0]

    def key(self, w: Workgroup, item: int) -> tuple[Array, int]:
        """The slot that a work-item means."""
        assert self._array is not None
        assert self._slot is not None
        slot = self._slot(w)
        locate(w, self.site, (slot[item : item + 1],), np.array([item]))
        return self._array, int(slot[item])

    def start(self, w: Workgroup, source: Access, target: Access, items: Value) -> None:
        """Start a copy by one work-item."""
        if self._array is None:
            w.copies.add(w, source, target, items)
            return
        transfer = Transfer(source, target, items, items)
        w.engine.start(w, transfer)
        w.copies.bulk.setdefault(self.key(w, int(items[0])), []).append(transfer)

    def uniform_key(self, w: Workgroup) -> tuple[Array, int]:
        """The slot that all work-items mean."""
        assert self._slot is not None
        if w.settings.uniform:
            check_uniform(w, self.site, "the slot of a bulk wait", self._slot(w))
        return self.key(w, int(w.active.ids[0]))


@step.register
def _(statement: s.BulkWait, b: Builder) -> Step:
    slots = _Slots(statement.completion, statement.slot, statement.loc, b)
    phase = b.expression(statement.phase, slots.site)

    def run(w: Workgroup) -> None:
        w.meet(slots.site, "a bulk wait")
        key = slots.uniform_key(w)
        _check_phase(w, slots.site, phase(w), w.copies.waits.get(key, 0) % 2)
        started = w.copies.bulk.pop(key, [])
        if not started and w.settings.waits:
            raise report.endless_wait(
                w, slots.site, f"endless wait: no bulk copy into slot {key[1]} was started"
            )
        for transfer in started:  # where only some wait, as if the first of them had copied
            transfer.end(w, 0 if statement.meeting else None)
        w.copies.waits[key] = w.copies.waits.get(key, 0) + 1
        w.barrier(statement.meeting)

    return Plain(run)


def _check_phase(w: Workgroup, site: Site, phase: Value, due: int) -> None:
    wrong = w.active.pick(phase) != due
    if wrong.any() and w.settings.copies:
        given = int(w.active.pick(phase)[wrong][0])
        raise report.wrong_phase(w, site, phase=given, due=due)


def finish(w: Workgroup) -> None:
    """The workgroup has ended: nothing may come after it that it did not wait for.

    Only copies to local memory that the work-items make themselves, ahead of a round that did not
    come, are dropped.
    """
    if not w.launch.survey.copying:
        return
    left = [*w.copies.pending, *w.bulk.pending]
    left = [t for t in left if t.target.buffer.array.space == "global"]
    left += [t for transfers in w.copies.bulk.values() for t in transfers]
    left += [t for m in w.mbarriers.values() for t in m.unfinished if t.proxy == "async"]
    left = [t for t in left if not t.ended]
    if left and w.settings.copies:
        raise report.never_waited(w, left[0].target)
    for transfer in left:
        transfer.end(w)
    if w.products.left and w.settings.copies:
        raise report.product_under_way(w, w.products.left[0].site)
