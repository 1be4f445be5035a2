"""Launches of fused functions that end in reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from portable.array.fusion import fused_reduction_kernel
from portable.array.fusion.traced import Trace, Traced, refuse
from portable.backend import ArrayView, Capabilities, Device
from portable.dtypes import DType, bool_, dtype
from portable.lang.launch.plan import Repeatable
from portable.primitives.base.operands import broadcast_strides, collapsed, number_for, power_of_two
from portable.primitives.base.storage import ByQueue, contiguous_strides
from portable.primitives.maps.elementwise_kernel import FULL, NUMBER, ROW
from portable.primitives.maps.work import vector_lanes

# Arguments of fused functions as kernels take them.

Shape = tuple[int, ...]

Bound = tuple[Any, int, Any]
"""An argument of one launch: the handle and the offset of an array, or a number."""


class Operand(NamedTuple):
    """An input as the kernel takes it.

    Attributes
    ----------
    how : str
        FULL, ROW or NUMBER of `portable.primitives.maps.elementwise_kernel`.
    given : ArrayView or number
        What it is like.
    layout : tuple or None
        Its shape and strides as the kernel counts them; None for numbers.
    number : DType or None
        The dtype of a number; None for arrays.
    """

    how: str
    given: Any
    layout: tuple[Shape, Shape] | None
    number: DType | None


def number_operand(x: Traced) -> Operand:
    """A Python number."""
    return Operand(NUMBER, number_for(1, x.dtype), None, x.dtype)


def array_operand(view: ArrayView, counted: Shape, step: Shape) -> Operand:
    """An array of which a kernel counts the extents so, with these strides.

    Parameters
    ----------
    view : ArrayView
        The array.
    counted : tuple of int
        The extents.
    step : tuple of int
        The strides, in bytes.
    """
    row = step[-1] == 0
    layout = (counted[:-1], step[:-1]) if row else (counted, step)
    given = view._replace(shape=layout[0], strides=layout[1], layout=None)
    return Operand(ROW if row else FULL, given, layout, None)


def handle_of(view: ArrayView, layout: tuple[Shape, Shape] | None, interpreted: bool) -> Any:
    """What the kernel takes; where it is run itself, the array as the kernel counts it.

    Parameters
    ----------
    view : ArrayView
        The array.
    layout : tuple or None
        Its shape and strides as the kernel counts them.
    interpreted : bool
        Whether the device runs kernels itself.
    """
    if not interpreted or layout is None:
        return view.handle
    return as_strided(view.handle, *layout)


def bound(
    operands: Sequence[Operand],
    args: Sequence[Any],
    views: Sequence[ArrayView | None],
    interpreted: bool,
) -> list[Bound]:
    """The inputs of one launch.

    Parameters
    ----------
    operands : sequence of Operand
        The inputs as the plan has them.
    args : sequence
        What the function was called with.
    views : sequence of (ArrayView or None)
        The arrays among them.
    interpreted : bool
        Whether the device runs kernels itself.
    """
    bound_operands: list[Bound] = []
    for operand, x, view in zip(operands, args, views, strict=True):
        if view is None or operand.number is not None:
            bound_operands.append((None, 0, number_for(x, operand.number)))  # type: ignore[arg-type]
        else:
            bound_operands.append((handle_of(view, operand.layout, interpreted), view.offset, None))
    return bound_operands


# -- fused reduction -------------------------------------------------------------------------------

_GROUP: Final = 256
_GROUPS_PER_UNIT: Final = 8
_FEWEST_PIECES: Final = 8
"""Vectors for a work-item below which another section does not pay."""
_MOST_PIECES: Final = 2048
"""Vectors for a work-item that is alone: few enough that totals of them do not drift."""


@dataclass(frozen=True, slots=True)
class _Work:
    """What is merged, and how that is shared out.

    Attributes
    ----------
    extents : tuple of int
        Of all dimensions as the kernel counts them, those of the results first.
    kept : int
        How many those of the results are.
    sections, width : int
        Workgroups that share one result, and their work-items.
    lanes : int
        Neighbours at a time.
    """

    extents: Shape
    kept: int
    sections: int
    width: int
    lanes: int

    @property
    def rows(self) -> int:
        """Results of one kind."""
        return prod(self.extents[: self.kept])

    @property
    def count(self) -> int:
        """Elements for each result."""
        return prod(self.extents[self.kept :])


@dataclass(frozen=True, slots=True)
class ReductionPlan:
    """What calls with the same dtypes, shapes and strides share.

    Attributes
    ----------
    first, second : Repeatable or None
        The launch; where workgroups see nothing of each other, one that merges their parts.
    operands : tuple of Operand
        The inputs.
    ranges : tuple of (int, DType)
        Inputs that are numbers, and of which dtypes of integers they have to be in range.
    kinds, results : tuple of DType
        The types that are merged in, and those of the results.
    shape : tuple of int
        Of each result.
    work : _Work
        How it is shared out.
    several : bool
        Whether the function returns a tuple.
    """

    first: Repeatable | None
    second: Repeatable | None
    operands: tuple[Operand, ...]
    ranges: tuple[tuple[int, DType], ...]
    kinds: tuple[DType, ...]
    results: tuple[DType, ...]
    shape: Shape
    work: _Work
    several: bool

    def run(self, device: Device, args: Sequence[Any], views: Sequence[ArrayView | None]) -> Any:
        """The results for arguments like those that it was made for."""
        for start, whole in self.ranges:
            number_for(args[start], whole)
        made = [device.empty(self.shape, kind) for kind in self.results]
        if self.first is not None:
            inputs = bound(self.operands, args, views, device.interprets)
            outs = [device.view(x) for x in made]
            # Held until the launches are queued: memory pools give again what is let go.
            merged = _parts(device, self.work, self.kinds)
            parts = [device.view(x) for x in merged]
            _run(device, self.first, inputs, parts, outs, self.work, last=self.second is None)
            if self.second is not None:
                again = _of_parts(self.work)
                seen = [(v.handle, v.offset, None) for v in parts]
                _run(device, self.second, seen, [], outs, again, last=True, count=self.work.count)
        return tuple(made) if self.several else made[0]


def plan_of_reductions(
    device: Device,
    trace: Trace,
    inputs: Sequence[Traced],
    views: Sequence[ArrayView | None],
    results: Sequence[Traced],
    several: bool,
) -> ReductionPlan:
    """The plan of a function whose results are made of reductions.

    Parameters
    ----------
    device : Device
        Where.
    trace : Trace
        What was recorded.
    inputs : sequence of Traced
        What stands for the arguments.
    views : sequence of (ArrayView or None)
        The arrays among them.
    results : sequence of Traced
        What the function returned.
    several : bool
        Whether that was a tuple.
    """
    assert trace.merged is not None
    assert trace.after is not None
    shape, axes = trace.merged
    order = [*(a for a in range(len(shape)) if a not in axes), *axes]
    extents, kept, steps = _counted(shape, order, len(axes), views)
    placed = iter(steps)
    operands = tuple(
        number_operand(x) if v is None else array_operand(v, extents, next(placed))
        for x, v in zip(inputs, views, strict=True)
    )
    work = _work(device.capabilities, trace, operands, extents, kept)
    kinds = tuple(r.merge.kind for r in trace.reductions)
    made = tuple(x.dtype for x in results)
    reductions = fused_reduction_kernel.Reductions(
        fused_reduction_kernel.Steps(tuple(x.how for x in operands), tuple(trace.steps)),
        tuple(r.value for r in trace.reductions),
        tuple(r.merge for r in trace.reductions),
        tuple(r.is_mean for r in trace.reductions),
        tuple(trace.after.steps),
        tuple(x.number for x in results),
    )
    alone = work.sections == 1 or device.capabilities.memory_orders == "acq_rel"
    first = second = None
    if work.rows:
        # Held while the launches are made: what pools give again would look like overlapping views.
        rows = [device.empty((work.rows,), kind) for kind in made]
        merged = _parts(device, work, kinds)
        outs = [device.view(x)._replace(layout=None) for x in rows]
        parts = [device.view(x) for x in merged]
        given = [x.given for x in operands]
        first = _launch(device, given, parts, outs if alone else [], work, reductions)
        if not alone:
            again = _of_parts(work)
            as_they_are = fused_reduction_kernel.Steps((FULL,) * len(kinds), ())
            merging = replace(reductions, steps=as_they_are, values=tuple(range(len(kinds))))
            second = _launch(device, parts, [], outs, again, merging)
    ranges = tuple(trace.ranges)
    return ReductionPlan(
        first, second, operands, ranges, kinds, made, results[0].shape, work, several
    )


# -- how the work is shared out -------------------------------------------------------------------


def _counted(
    shape: Shape, order: Sequence[int], gone: int, views: Sequence[ArrayView | None]
) -> tuple[Shape, int, list[Shape]]:
    """The extents with those of the results first, how many these are, and each array's strides."""
    arrays = [v for v in views if v is not None]
    strides = [broadcast_strides(v.shape, v.strides, shape) for v in arrays]
    split = len(shape) - gone
    outer, outer_steps = (
        _collapsed(shape, strides, order[:split]) if split else ((), [()] * len(arrays))
    )
    inner, inner_steps = _collapsed(shape, strides, order[split:])
    extents = (*outer, *inner)
    if len(extents) > fused_reduction_kernel.MOST_DIMENSIONS:
        refuse(f"a reduction of views that are {len(extents)} dimensions apart in memory")
    steps = [(*a, *b) for a, b in zip(outer_steps, inner_steps, strict=True)]
    return extents, len(outer), steps


def _collapsed(
    shape: Shape, strides: Sequence[Shape], order: Sequence[int]
) -> tuple[Shape, list[Shape]]:
    if not order:
        return (1,), [(0,) for _ in strides]
    turned = [tuple(s[a] for a in order) for s in strides]
    return collapsed(tuple(shape[a] for a in order), turned)


def _work(
    can: Capabilities, trace: Trace, operands: Sequence[Operand], extents: Shape, kept: int
) -> _Work:
    lanes = _lanes(can, trace, operands, extents, kept)
    pieces = prod(extents[kept:-1]) * (extents[-1] // lanes)
    rows = max(prod(extents[:kept]), 1)
    width = 1 if can.single_work_items else min(_GROUP, can.max_workgroup, power_of_two(pieces))
    wanted = -(-can.compute_units * _GROUPS_PER_UNIT // rows)
    if can.single_work_items and any(r.merge.rounds for r in trace.reductions):
        wanted = max(wanted, -(-pieces // _MOST_PIECES))
    sections = max(1, min(wanted, pieces // (width * _FEWEST_PIECES)))
    return _Work(extents, kept, sections, width, lanes)


def _lanes(
    can: Capabilities, trace: Trace, operands: Sequence[Operand], extents: Shape, kept: int
) -> int:
    full = [x.given for x in operands if x.how == FULL]
    kinds = [dtype(x.given.dtype) for x in operands if x.number is None]
    merged = [r.merge.kind for r in trace.reductions]
    if not trace.vector or bool_ in merged or any(v.strides[-1] != v.dtype.itemsize for v in full):
        return 1
    lanes = vector_lanes([*kinds, *merged], extents[-1], can)
    whole = len(extents) - kept == 1 or extents[-1] % lanes == 0
    return lanes if whole else 1


def _of_parts(work: _Work) -> _Work:
    """The work of merging the sections of each result."""
    width = min(work.width, power_of_two(work.sections))
    return _Work((work.rows, work.sections), 1, 1, width, 1)


# -- launches -------------------------------------------------------------------------------------


def _parts(device: Device, work: _Work, kinds: Sequence[DType]) -> list[Any]:
    """Arrays for what each workgroup finds; nothing where results have a workgroup each."""
    if work.sections == 1:
        return []
    return [device.empty((work.rows, work.sections), kind) for kind in kinds]


@lru_cache(maxsize=64)
def _counts(device: Device, rows: int) -> ByQueue:
    """Zeros, which kernels leave as zeros."""
    return ByQueue(device, lambda: device.from_numpy(np.zeros(rows, np.int32)))


def _launch(
    device: Device,
    given: Sequence[Any],
    parts: Sequence[ArrayView],
    outs: Sequence[ArrayView],
    work: _Work,
    reductions: fused_reduction_kernel.Reductions,
) -> Repeatable:
    """The launch for arrays like these."""
    counts = device.view(_counts(device, work.rows)()) if parts and outs else None
    extents = fused_reduction_kernel.Extents(work.extents, work.sections, work.count)
    args = tuple(given), fused_reduction_kernel.Parts(tuple(parts), counts), tuple(outs), extents
    shares = fused_reduction_kernel.Shares(work.kept, work.lanes, work.width)
    constants = {"REDUCTIONS": reductions, "SHARES": shares}
    groups = work.rows * work.sections
    launcher = fused_reduction_kernel.fused_reduction[groups * work.width, work.width]
    return launcher.repeatable_on(device, args, constants)


def _run(
    device: Device,
    launch: Repeatable,
    inputs: Sequence[Bound],
    parts: Sequence[ArrayView],
    outs: Sequence[ArrayView],
    work: _Work,
    *,
    last: bool,
    count: int | None = None,
) -> None:
    """Launches it; results are written by the `last` launch."""
    counts: Bound = (None, 0, None)
    if parts and last:
        view = device.view(_counts(device, work.rows)())
        counts = (view.handle, view.offset, None)
    ends: list[Bound] = []
    for v in outs if last else ():
        layout = ((work.rows,), contiguous_strides((work.rows,), v.dtype.itemsize))
        ends.append((handle_of(v, layout, device.interprets), v.offset, None))
    numbers = [*work.extents, work.sections, work.count if count is None else count]
    arguments: list[Bound] = [
        *inputs, *[(v.handle, v.offset, None) for v in parts], counts, *ends,
        *[(None, 0, n) for n in numbers],
    ]  # fmt: skip
    handles, offsets, values = zip(*arguments, strict=True)
    launch(handles, offsets, values)
