"""The statements that copy between global and local memory, and wait for copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from portable.errors import Location
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array, Turns
from portable.sim import report
from portable.sim.control import assign, instruction
from portable.sim.copies import MBarrier, Transfer
from portable.sim.fragments import Part
from portable.sim.launch import Site
from portable.sim.memory import Access, AccessKind, Buffer, advanced, indexed, locate
from portable.sim.values import Value
from portable.sim.workgroup import (
    Builder,
    Evaluate,
    Pause,
    Pauses,
    Plain,
    Running,
    Step,
    Workgroup,
    check_uniform,
    step,
)

# Instructions on mbarriers: who arrives, announces bytes, and waits.


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


def _place(statement: s.Instruction, b: Builder) -> Place:
    ((array, index),) = statement.addresses
    return Place(array, index, statement, b)


@instruction("mbarrier.init")
def _(statement: s.Instruction, b: Builder) -> Step:
    location = _place(statement, b)
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
        location = _place(statement, b)
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
    position = _place(statement, b)
    (parity,) = b.expressions(statement.inputs, position.site)

    def run(w: Workgroup) -> Running:
        wanted = parity(w)
        for mbarrier, items in position.each(w, w.active.ids, "atomic read"):
            which = int(wanted[items[0]])
            if (wanted[items] != which).any() and w.settings.uniform:
                mine = wanted[items]
                what = "the phase that an mbarrier is waited for"
                raise report.not_uniform(w, position.site, what, mine, np.full_like(mine, which))
            yield from _until(w, position.site, lambda m=mbarrier, p=which: m.passed(p))  # type: ignore[misc]
            mbarrier.observe(w, items)

    return Pauses(run)


def _until(w: Workgroup, site: Site, passed: Callable[[], bool]) -> Running:
    """Wait; where no other strand could help, copies alone can."""
    if w.strands is not None:
        yield Pause(site, False, passed)
    while w.strands is None and not passed():
        if w.engine.advance(w):
            continue
        if w.settings.waits:
            raise report.endless_wait(w, site, report.NOBODY_COMES)
        return


# -- transfers -------------------------------------------------------------------------------------


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


# Bulk copies as Hopper has them, and boxes of arrays that its copy engine reads.

_ALIGNMENT = 16


@instruction("bulk.fits")
def _(statement: s.Instruction, b: Builder) -> Step:
    """Whether addresses and size are multiples of 16 bytes."""
    ends = [Run(array, index, statement.loc, b) for array, index in statement.addresses]
    (size,) = b.expressions(statement.inputs, b.site(statement.loc))
    (output,) = statement.outputs

    def run(w: Workgroup) -> None:
        total = size(w).astype(np.int64)
        for end in ends:
            total = total | end.addresses(w)
        assign(w, output.name, total % _ALIGNMENT == 0)

    return Plain(run)


def _halves(statement: s.Instruction, b: Builder) -> tuple[Run, Run]:
    """Target and source of a copy."""
    target, source = (
        Run(array, index, statement.loc, b) for array, index in statement.addresses[:2]
    )
    return target, source


def _ends(w: Workgroup, ends: tuple[Run, Run], item: int, size: int) -> tuple[Access, Access]:
    """What one work-item's copy of so many bytes accesses: target and source."""
    width = ends[0].itemsize
    if size % width:
        raise report.part_of_element(w, ends[0].site, size=size)
    steps = np.arange(size // width)
    items, every = np.full(steps.size, item), np.ones(steps.size, np.bool_)
    target, source = (end.access(w, items, steps, every) for end in ends)
    check_contiguous(w, [target, source])
    return target, source


@instruction("bulk.load")
def _(statement: s.Instruction, b: Builder) -> Step:
    ends = _halves(statement, b)
    barrier = Place(*statement.addresses[2], statement, b)
    (size,) = b.expressions(statement.inputs, barrier.site)

    def run(w: Workgroup) -> None:
        sizes = size(w)
        for item in w.active.ids:
            bytes_ = int(sizes[item])
            target, source = _ends(w, ends, item, bytes_)
            _counted(w, barrier, Transfer(source, target, *_alone(item), "async", bytes_))

    return Plain(run)


def _alone(item: int) -> tuple[Value, Value]:
    return np.array([item]), np.zeros(1, np.int64)


def _counted(w: Workgroup, completion: Place, transfer: Transfer) -> None:
    """Start a copy whose bytes an mbarrier counts, which the engine must see."""
    for mbarrier, items in completion.each(w, transfer.items, "atomic update"):
        w.proxies.check(w, completion.access(w, items), "atomic update")
        mbarrier.count_bytes(transfer)
    w.engine.start(w, transfer)


@instruction("bulk.store")
def _(statement: s.Instruction, b: Builder) -> Step:
    ends = _halves(statement, b)
    (size,) = b.expressions(statement.inputs, b.site(statement.loc))

    def run(w: Workgroup) -> None:
        sizes = size(w)
        for item in w.active.ids:
            target, source = _ends(w, ends, item, int(sizes[item]))
            w.bulk.add(w, source, target, np.array([item]), "async")

    return Plain(run)


# -- boxes ----------------------------------------------------------------------------------------


@instruction("tensor.load")
def _(statement: s.Instruction, b: Builder) -> Step:
    ((source, box),) = statement.boxes
    (array, index), completion = statement.addresses
    site, target_site = b.site(statement.loc, source), b.site(statement.loc, array)
    starts = b.expressions(statement.inputs, site)
    target = b.expressions(index, target_site)
    position = Place(*completion, statement, b)
    steps = np.indices(box.extents[::-1]).reshape(len(box.dims), -1)[::-1]
    taken = steps * np.array(box.steps)[:, None]
    size = steps.shape[1] * array.dtype.itemsize

    def run(w: Workgroup) -> None:
        for item in w.active.ids:
            at = [int(start(w)[item]) + step for start, step in zip(starts, taken, strict=True)]
            wanted: list[Value] = [at[box.dims.index(d)] for d in range(source.ndim)]
            items = np.full(steps.shape[1], item)
            read = locate(w, site, tuple(wanted), items, clip=True)
            corner = locate(w, target_site, tuple(i(w)[[item]] for i in target), items[:1])
            first = w.launch.survey.addresses[array] + int(corner.offsets[0]) * array.dtype.itemsize
            offsets = _swizzled(first, items.size, corner.buffer, box.swizzle)
            offsets -= w.launch.survey.addresses[array] // array.dtype.itemsize
            places = indexed(corner.buffer, offsets)
            written = Access(target_site, corner.buffer, places, items, offsets, None)
            _counted(w, position, Transfer(read, written, *_alone(item), "async", size))

    return Plain(run)


def _swizzled(first: int, count: int, buffer: Buffer, chunks: int) -> Value:
    """Where so many elements from an address on lie, in elements: 16-byte chunks change places.

    The bits of the address above those of a row of `chunks` are added to those of the chunk.
    """
    width = buffer.data.itemsize
    address: Value = first + np.arange(count) * width
    if chunks:
        address = Turns.of(chunks, 1).turned(address, address // (16 * chunks))
    return address // width
