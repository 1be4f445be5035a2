"""Reductions and running totals along axes: how they are cut into sections, and launched."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

from portable.array.geometry import collapsed
from portable.array.reduction_kernels import best, reduce, scan
from portable.dtypes import DType, int64

if TYPE_CHECKING:
    from portable.array.array import Array

__all__ = ["Merge", "best_along_last", "reduced", "scanned"]

_CPU_VECTOR: Final = 32
_GPU_VECTOR: Final = 16
_CPU_ITEMS_PER_UNIT: Final = 8
_GPU_ITEMS_PER_UNIT: Final = 256
_CPU_SHORTEST: Final = 4096
_GPU_SHORTEST: Final = 256
_GROUP: Final = 128
# So few rows that the pages and cache lines of a strip of them stay at hand for the next columns.
_CPU_DEPTH: Final = 256


@dataclass(frozen=True, slots=True)
class Merge:
    """What a reduction does.

    Attributes
    ----------
    function : Function
        Merges two values; associative.
    kind : DType
        The type to merge in, and of the result.
    initial : object
        The neutral element.
    first : Function or None
        What is done to each element before.
    vector : bool
        Whether `function` may be called with vectors.
    """

    function: Any
    kind: DType
    initial: Any
    first: Any = None
    vector: bool = True


def reduced(x: Any, axes: tuple[int, ...], merge: Merge) -> Array:
    """`x` merged along axes, in the shape of the other axes, contiguous."""
    kept = [a for a in range(x.ndim) if a not in axes]
    shape = tuple(x.shape[a] for a in kept)
    view = _grouped(x, kept, list(axes))
    lead = view[1]
    array = view[0]
    first = merge.first
    while array.ndim > lead:
        array = _last_axis(_next_axis_last(array, lead), merge, first)
        first = None
    result: Array = array.viewed(shape, _contiguous(shape, array.dtype.itemsize))
    return result


def _contiguous(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    from portable.array.storage import contiguous_strides

    return contiguous_strides(shape, itemsize)


def _grouped(x: Any, kept: list[int], gone: list[int]) -> tuple[Any, int]:
    """The view with kept axes first, both groups collapsed, and how many kept ones are left."""
    outer, outer_steps = collapsed(
        tuple(x.shape[a] for a in kept), [tuple(x.strides[a] for a in kept)]
    )
    inner, inner_steps = collapsed(
        tuple(x.shape[a] for a in gone), [tuple(x.strides[a] for a in gone)]
    )
    view = x.viewed((*outer, *inner), (*outer_steps[0], *inner_steps[0]))
    return view, len(outer)


def _next_axis_last(x: Any, lead: int) -> Any:
    """The view whose last axis is the one to merge next: that of neighbours, else the longest."""
    choices = range(lead, x.ndim)
    chosen = max(choices, key=lambda a: (abs(x.strides[a]) == x.dtype.itemsize, x.shape[a]))
    order = [a for a in range(x.ndim) if a != chosen] + [chosen]
    return x.viewed(tuple(x.shape[a] for a in order), tuple(x.strides[a] for a in order))


def _last_axis(x: Any, merge: Merge, first: Any) -> Any:
    """Merges the last axis, in as many passes as it takes."""
    while True:
        x = _pass(x, merge, first)
        first = None
        if x.shape[-1] == 1:
            return x.viewed(x.shape[:-1], x.strides[:-1])


def _pass(x: Any, merge: Merge, first: Any) -> Any:
    rows, length = prod(x.shape[:-1]), x.shape[-1]
    columns = abs(x.strides[-1]) != x.dtype.itemsize and x.ndim > 1
    lanes = _lanes(x, merge, first, columns)
    work, step = (-(-rows // lanes), 1) if columns else (rows, lanes)
    section, sections = _sections(x, work, length, step)
    cpu = x.device.capabilities.kind == "cpu"
    if columns and cpu:
        section, sections = _CPU_DEPTH, -(-length // _CPU_DEPTH)
    out = x.device.empty((*x.shape[:-1], sections), merge.kind)
    constants = {
        "MERGE": merge.function,
        "MAP": first,
        "KIND": merge.kind,
        "INITIAL": merge.initial,
        "LANES": lanes,
        "COLUMNS": columns,
        "SECTION": section,
        "SPREAD": not cpu and sections > 1,
    }
    reduce[work * sections, 1 if cpu else _GROUP](x, out, **constants)
    return out


def _sections(x: Any, work: int, length: int, step: int) -> tuple[int, int]:
    """Vectors of a section, and the number of sections, so that all compute units have work."""
    capabilities = x.device.capabilities
    cpu = capabilities.kind == "cpu"
    wanted = capabilities.compute_units * (_CPU_ITEMS_PER_UNIT if cpu else _GPU_ITEMS_PER_UNIT)
    shortest = _CPU_SHORTEST if cpu else _GPU_SHORTEST
    vectors = -(-length // step)
    sections = max(1, min(-(-wanted // work), length // shortest))
    # A power of two, so that many lengths share one compiled program.
    section = 1 << max(0, (-(-vectors // sections) - 1).bit_length())
    return section, -(-vectors // section)


def _lanes(x: Any, merge: Merge, first: Any, columns: bool) -> int:
    plain = x.dtype.kind not in "cb" and merge.kind.kind not in "cb"
    if not merge.vector or first is not None or not plain or x.dtype.itemsize < 4:
        return 1
    capabilities = x.device.capabilities
    widest = _CPU_VECTOR if capabilities.kind == "cpu" else _GPU_VECTOR
    lanes: int = min(widest, capabilities.vector_bytes) // merge.kind.itemsize
    if columns:
        fits = x.strides[-2] == x.dtype.itemsize and x.shape[-2] % lanes == 0
    else:
        fits = x.strides[-1] == x.dtype.itemsize and x.shape[-1] >= lanes
    return lanes if fits else 1


def best_along_last(x: Any, largest: bool) -> Any:
    """The positions along the last axis of the least or greatest elements; the first of equals."""
    places = None
    while True:
        rows, length = prod(x.shape[:-1]), x.shape[-1]
        section, sections = _sections(x, rows, length, 1)
        values = x.device.empty((*x.shape[:-1], sections), x.dtype)
        out = x.device.empty((*x.shape[:-1], sections), int64)
        group = 1 if x.device.capabilities.kind == "cpu" else _GROUP
        best[rows * sections, group](x, places, values, out, SECTION=section, LARGEST=largest)
        if sections == 1:
            return out.viewed(out.shape[:-1], out.strides[:-1])
        x, places = values, out


def scanned(x: Any, out: Any, merge: Merge, shift: int) -> None:
    """Running totals along the last axis into `out`, from the neutral element on if `shift`."""
    rows, length = prod(x.shape[:-1]), x.shape[-1]
    section, sections = _sections(x, rows, length, 1)
    starts = None
    if sections > 1:
        starts = _starts(x, merge, section, sections)
    group = 1 if x.device.capabilities.kind == "cpu" else _GROUP
    scan[rows * sections, group](
        x,
        starts,
        out,
        MERGE=merge.function,
        KIND=merge.kind,
        INITIAL=merge.initial,
        SECTION=section,
        SHIFT=shift,
    )


def _starts(x: Any, merge: Merge, section: int, sections: int) -> Any:
    """The running totals of whole sections."""
    totals = x.device.empty((*x.shape[:-1], sections), merge.kind)
    rows = prod(x.shape[:-1])
    group = 1 if x.device.capabilities.kind == "cpu" else _GROUP
    reduce[rows * sections, group](
        x,
        totals,
        MERGE=merge.function,
        MAP=None,
        KIND=merge.kind,
        INITIAL=merge.initial,
        LANES=1,
        COLUMNS=False,
        SECTION=section,
        SPREAD=False,
    )
    starts = x.device.empty(totals.shape, merge.kind)
    scanned(totals, starts, merge, 0)
    return starts
