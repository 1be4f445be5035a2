"""Bulk copies as Hopper has them, and boxes of arrays that its copy engine reads."""

from __future__ import annotations

import numpy as np

from portable.lang.ir import statements as s
from portable.lang.ir.types import Turns
from portable.sim import report
from portable.sim.control import assign
from portable.sim.copies import Transfer
from portable.sim.instructions import instruction
from portable.sim.mbarriers import Place
from portable.sim.memory import Access, Buffer, indexed, locate
from portable.sim.steps import Builder, Plain, Step
from portable.sim.transfers import Run, check_contiguous
from portable.sim.values import Value
from portable.sim.workgroup import Workgroup

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
