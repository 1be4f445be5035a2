"""Reductions along axes: how they are cut into sections, and launched.

The floor is reading once. Through NVIDIA's OpenCL an H200 added up 2^26 `float32` or `int32`, or
took the greatest, at 0.97 to 0.99 of its copy's speed, along the columns of a square matrix at 0.96
to 0.99; at 2^24, where a launch is a tenth of the time, at 0.8 to 0.84.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.dtypes import DType
from portable.lang.function import function
from portable.primitives.base.operands import collapsed, power_of_two
from portable.primitives.base.recipe import Recipe
from portable.primitives.base.storage import contiguous_strides, zeros_by_queue
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.reductions.kernels import (
    reduce_at_once,
    reduce_by_workgroup,
    reduce_columns,
    reduce_strips,
)
from portable.primitives.reductions.merging import Merge
from portable.primitives.tuning import Columns, columns_for, shares_for
from portable.tune.ways import Way, Ways

# How the rows of an array are cut into sections, and which of them a work-item does.


@dataclass(frozen=True)
class Section:
    """A part of a row, which is all of the last axis.

    Attributes
    ----------
    outer : tuple of int
        The index of the row.
    number : int
        Which of the row's sections it is.
    first, stop : int
        Where it begins and ends.
    inside : bool
        Whether there is such a row.
    row : int
        How many rows come before.
    size : int
        Elements of a section at most; a constant.
    """

    outer: Any
    number: Any
    first: Any
    stop: Any
    inside: Any
    row: Any
    size: Any


@dataclass(frozen=True)
class Sections:
    """How workgroups share the sections of rows; a constant of kernels.

    Attributes
    ----------
    size : int
        Elements of a section.
    width, tall : int
        Work-items of a workgroup along a row, and of how many rows it does a section.
    one : bool
        Whether a row is a single section.
    rows : int
        Rows that a work-item does one after the other, where it has short ones to itself.
    """

    size: int
    width: int = 1
    tall: int = 1
    one: bool = False
    rows: int = 1

    def own(self, lead: tuple[kl.Scalar, ...], length: kl.Scalar, turn: kl.Scalar = 0) -> Any:
        """The section of this work-item, of rows of a length counted by the extents `lead`.

        Of several `rows` it is the one whose `turn` it is.
        """
        group = kl.group_id(0)
        sections = 1 if self.one else kl.cdiv(length, self.size)
        s = 0 if self.one else group % sections
        row = group // sections * self.tall + kl.local_id(0) // self.width
        if self.rows > 1:
            row = row * self.rows + turn
        first = s * self.size
        stop = kl.minimum(first + self.size, length)
        return Section(
            unravelled(row, lead), s, first, stop, row < product_of(lead), row, self.size
        )


@function
def section_at(x: kl.Array, SIZE: int, number: kl.Scalar) -> Any:
    """The section of so many elements that comes `number`-th, each row's one after the other."""
    *lead, length = x.shape
    sections = kl.cdiv(length, SIZE)
    row, s = number // sections, number % sections
    first = s * SIZE
    stop = kl.minimum(first + SIZE, length)
    return Section(unravelled(row, lead), s, first, stop, row < product_of(lead), row, SIZE)


# What reductions do to elements before they merge them by words of the language.

TRUE_WORD = 0x01010101
"""Four bools that are true, read as one integer."""


@function
def is_true(x: Any) -> Any:
    """Whether a number is not zero."""
    return x != 0


@function
def square_size(x: Any) -> Any:
    """The square of a complex number's size."""
    return x.real * x.real + x.imag * x.imag


@function
def all_true(x: Any) -> Any:
    """Whether four bools read as one integer are true."""
    return x == TRUE_WORD


@function
def how_many_true(x: Any) -> Any:
    """How many of four bools read as one integer are true: the sum of its bytes."""
    return (x * TRUE_WORD) >> 24


# -- axis ------------------------------------------------------------------------------------------

_MOST_LANES: Final = 16
_WIDEST_REGISTERS: Final = 64
_NARROWEST: Final = 4
"""Lanes of a vector at least that is shorter than a register, where neighbours are few."""
_CACHED: Final = 1 << 16
"""Bytes of a block of columns that a cache holds, so that they may be gone down one by one."""
_FEW: Final = 1 << 10
"""Elements below which a work-item that is alone does several rows."""
_SHARES: Final = 8
"""Such work-items that are wanted for each compute unit."""
_VECTORS: Final = 4096
"""Vectors of a section at least."""
_LONGEST: Final = 1 << 16
"""Elements that a work-item that is alone adds up at most; see `merging` for why."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How the last axis is shared among workgroups: `tall` rows each, `width` work-items a row.

    Attributes
    ----------
    width, tall : int
        Work-items along a row, and rows.
    section, sections : int
        Elements of the axis for a workgroup, and how many such sections there are.
    groups : int
        Workgroups.
    """

    width: int
    tall: int
    section: int
    sections: int
    groups: int

    @property
    def items(self) -> int:
        """Work-items of a workgroup."""
        return self.width * self.tall

    @property
    def constant(self) -> Sections:
        """As kernels take it."""
        return Sections(self.section, self.width, self.tall, self.sections == 1)


def reduced(recipe: Recipe, x: Any, axes: tuple[int, ...], merge: Merge, result: DType) -> Any:
    """`x` merged along axes, in the shape of the other axes, contiguous.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        An array of it, not empty.
    axes : tuple of int
        Which go, counted from the front.
    merge : Merge
        What is done.
    result : DType
        Of the totals in memory.
    """
    kept = [a for a in range(x.ndim) if a not in axes]
    array, lead = grouped(x, kept, list(axes))
    first = merge.first
    while array.ndim > lead:
        array = _next_axis_last(array, lead)
        last = array.ndim == lead + 1
        array = _last_axis(recipe, array, merge, first, result if last else merge.kind)
        first = None
    return array


def grouped(x: Any, kept: list[int], gone: list[int]) -> tuple[Any, int]:
    """The view with kept axes first, both groups collapsed, and how many kept ones are left.

    Parameters
    ----------
    x : Storage
        The array.
    kept, gone : list of int
        Its axes.
    """
    outer, outer_steps = collapsed(
        tuple(x.shape[a] for a in kept), [tuple(x.strides[a] for a in kept)]
    )
    # In which order the others are merged does not matter, so they follow memory.
    gone = sorted(gone, key=lambda a: -abs(x.strides[a]))
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


def _last_axis(recipe: Recipe, x: Any, merge: Merge, first: Any, result: DType) -> Any:
    """Merges the last axis, in as many passes as it takes."""
    while True:
        x = _pass(recipe, x, merge, first, result)
        first = None
        if x.shape[-1] == 1:
            return x.viewed(x.shape[:-1], x.strides[:-1])


def lies_crosswise(x: Any) -> bool:
    """Whether neighbours lie along another axis than the last."""
    strided: bool = abs(x.strides[-1]) != x.dtype.itemsize
    return strided and x.ndim > 1 and x.shape[-2] > 1


class Asked(NamedTuple):
    """What is asked of the ways of a pass: the array, what is done, and the dtype of totals."""

    recipe: Recipe
    x: Any
    merge: Merge
    result: DType

    @property
    def how(self) -> Cut:
        """The sections of the last axis."""
        return cut(self.x, self.merge.lanes, rounds=self.merge.rounds)


def _pass(recipe: Recipe, x: Any, merge: Merge, first: Any, result: DType) -> Any:
    meet = x.device.capabilities.single_work_items
    lanes = lanes_for(x, merge.kind, -2 if lies_crosswise(x) else -1, meet=meet)
    return REDUCTIONS.first(Asked(recipe, x, merge.taking(lanes, first), result))


def _in_strips(asked: Asked) -> bool:
    return lies_crosswise(asked.x) and columns_for(asked.x.device.capabilities).group > 1


def _at_once(asked: Asked) -> bool:
    ordered: bool = asked.x.device.capabilities.memory_orders == "acq_rel"
    return ordered and asked.how.sections > 1


def _pass_by_workgroup(recipe: Recipe, x: Any, merge: Merge, result: DType) -> Any:
    how = cut(x, merge.lanes, rounds=merge.rounds)
    out = recipe.empty((*x.shape[:-1], how.sections), result if how.sections == 1 else merge.kind)
    launch_by_workgroup(recipe, (x,), (out,), merge, how)
    return out


def launch_by_workgroup(
    recipe: Recipe, arrays: tuple[Any, ...], outs: tuple[Any, ...], fold: Any, how: Cut
) -> None:
    """The launch of `reduce_by_workgroup`, which says what it takes, over rows that are cut so."""
    each = _rows_of_each(arrays[0], how)
    items = -(-how.groups // each) * how.items
    constants = {"FOLD": fold, "CUT": replace(how.constant, rows=each)}
    recipe.launch(reduce_by_workgroup, items, how.items, arrays, outs, **constants)


def _rows_of_each(x: Any, how: Cut) -> int:
    """Rows for a work-item that has rows to itself: enough elements that beginning costs little.

    A power of two, so that many lengths share one compiled program.
    """
    if how.items > 1 or how.sections > 1:
        return 1
    wanted = max(1, x.device.capabilities.compute_units * _SHARES)
    most: int = min(_FEW // x.shape[-1], how.groups // wanted)
    return 1 << max(1, most).bit_length() - 1


def _pass_at_once(recipe: Recipe, x: Any, merge: Merge, result: DType) -> Any:
    """All of the last axis in one launch; the last workgroup of a row merges all parts."""
    width = cut(x, merge.lanes, rounds=merge.rounds).width
    shares = shares_for(x.device.capabilities)
    ahead, wanted = shares.ahead, x.device.capabilities.compute_units * shares.at_once
    rows = prod(x.shape[:-1])
    tiles = -(-x.shape[-1] // (width * merge.lanes * ahead))
    each = -(-tiles // max(1, wanted // rows))
    if width == 1 and merge.rounds:
        each = min(each, max(1, _LONGEST // (merge.lanes * ahead)))
    sections = -(-tiles // each)
    parts = recipe.empty((*x.shape[:-1], sections), merge.kind)
    counts = recipe.found(zeros_by_queue(x.device, power_of_two(rows)))
    out = recipe.empty((*x.shape[:-1], 1), result)
    arrays = x, parts, counts, out.viewed(out.shape[:-1], out.strides[:-1])
    constants = {"MERGE": merge, "WIDTH": width, "AHEAD": ahead}
    recipe.launch(reduce_at_once, rows * sections * width, width, *arrays, **constants)
    return out


def _pass_over_columns(recipe: Recipe, x: Any, merge: Merge, result: DType) -> Any:
    how = column_strips(x, merge.lanes, columns_for(x.device.capabilities))
    out = recipe.empty((*x.shape[:-1], how.sections), result if how.sections == 1 else merge.kind)
    how.launch(recipe, x, (out,), merge)
    return out


def _pass_over_strips(recipe: Recipe, x: Any, merge: Merge, result: DType) -> Any:
    """Columns on a GPU: in one launch, where workgroups see what others have written before."""
    capabilities = x.device.capabilities
    share = columns_for(capabilities)
    columns, lanes = prod(x.shape[:-1]), merge.lanes
    width, tall = _strip(-(-columns // lanes), x.shape[-1], share)
    strips = -(-columns // (width * lanes))
    most = max(1, capabilities.compute_units * share.groups // strips)
    sections = min(most, max(1, x.shape[-1] // (tall * share.depth)))
    alone = sections == 1
    parts = recipe.empty((sections, columns), result if alone else merge.kind)
    counts = out = None
    if not alone and capabilities.memory_orders == "acq_rel":
        counts = recipe.found(zeros_by_queue(x.device, power_of_two(strips)))
        out = recipe.empty((columns,), result)
    items, constants = width * tall, {"MERGE": merge, "WIDTH": width, "TALL": tall}
    recipe.launch(
        reduce_strips, strips * sections * items, items, x, parts, counts, out, **constants
    )
    shape = (*x.shape[:-1], 1)
    strides = (*contiguous_strides(x.shape[:-1], 1), 1)
    if alone or out is not None:
        results = parts if out is None else out
        return results.viewed(shape, tuple(s * result.itemsize for s in strides))
    size = parts.dtype.itemsize
    return parts.viewed(
        (*shape[:-1], sections), (*(s * size for s in strides[:-1]), columns * size)
    )


def _passing(function: Callable[..., Any]) -> Callable[[Asked], Iterator[Any]]:
    """A pass as a way makes it."""
    return lambda asked: iter((function(*asked),))


REDUCTIONS: Final = Ways[Asked, Any](
    "reduction",
    Way("strips", "reduce_strips", _passing(_pass_over_strips), _in_strips),
    Way(
        "columns",
        "reduce_columns",
        _passing(_pass_over_columns),
        lambda asked: lies_crosswise(asked.x),
    ),
    Way("at once", "reduce_at_once", _passing(_pass_at_once), _at_once),
    Way("by workgroup", "reduce_by_workgroup", _passing(_pass_by_workgroup)),
)
"""How an axis is merged, in one pass of one or several."""


def _strip(vectors: int, length: int, share: Columns) -> tuple[int, int]:
    """Work-items of a workgroup along neighbours, and down the columns."""
    width = min(share.group, power_of_two(vectors))
    while width > share.width and length >= 2 * share.depth * (share.group // width):
        width //= 2
    return width, share.group // width


@dataclass(frozen=True, slots=True)
class Strips:
    """How columns are shared among work-items that do not share a strip.

    Attributes
    ----------
    strip : int
        Vectors of neighbours for each.
    section, sections : int
        Elements of the axis for each, and how many such sections there are.
    items, group : int
        Work-items, and those of a workgroup.
    """

    strip: int
    section: int
    sections: int
    items: int
    group: int

    def launch(self, recipe: Recipe, x: Any, outs: tuple[Any, ...], fold: Any) -> None:
        """The launch of `reduce_columns`, which says what it takes."""
        constants = {"FOLD": fold, "STRIP": self.strip, "SECTION": self.section}
        recipe.launch(reduce_columns, self.items, self.group, x, outs, **constants)


def column_strips(x: Any, lanes: int, share: Columns) -> Strips:
    """A vector of neighbours for each work-item, but for one that is alone a strip of them.

    Parameters
    ----------
    x : Storage
        Columns along its last axis.
    lanes : int
        Neighbours of a vector.
    share : Columns
        How the device shares them.
    """
    vectors = prod(x.shape[:-2]) * -(-x.shape[-2] // lanes)
    block = x.shape[-2] * x.shape[-1] * x.dtype.itemsize
    strip = 1 if x.ndim > 2 and block <= _CACHED else min(share.width, vectors)
    strips = -(-vectors // strip)
    section = share.depth
    if share.group > 1:
        wanted = -(-x.device.capabilities.compute_units * share.groups * share.group // strips)
        section = max(section, power_of_two(-(-x.shape[-1] // wanted)))
    sections = -(-x.shape[-1] // section)
    return Strips(strip, section, sections, strips * sections, share.group)


def cut(x: Any, lanes: int, *, rounds: bool = False) -> Cut:
    """Sections such that all compute units have work, and workgroups as wide as the rows.

    Parameters
    ----------
    x : Storage
        Rows along its last axis.
    lanes : int
        Neighbours that a work-item takes at a time.
    rounds : bool
        Whether totals drift, so that a work-item that is alone has no long section.
    """
    capabilities = x.device.capabilities
    rows, length = prod(x.shape[:-1]), x.shape[-1]
    shares = shares_for(capabilities)
    width = min(shares.group, power_of_two(-(-length // lanes)))
    tall = shares.group // width
    wanted = -(-capabilities.compute_units * shares.groups // -(-rows // tall))
    # A power of two, so that many lengths share one compiled program.
    section = power_of_two(max(-(-length // wanted), _VECTORS * lanes))
    if rounds and shares.group == 1:
        section = min(section, _LONGEST)
    sections = -(-length // section)
    if sections > 1:
        tall = 1
    return Cut(width, tall, section, sections, -(-rows // tall) * sections)


def lanes_for(x: Any, kind: DType, axis: int, *, meet: bool = False) -> int:
    """How many neighbours along an axis a work-item loads at a time, to merge them in `kind`.

    Parameters
    ----------
    x : Storage
        What is read.
    kind : DType
        In which it is merged.
    axis : int
        -1, or -2 where neighbours lie along the last axis but one.
    meet : bool
        Whether the last vector of a row may begin before the one before it ends, along the latter.
    """
    if "c" in (x.dtype.kind, kind.kind) or x.strides[axis] != x.dtype.itemsize:
        return 1
    lanes: int = x.device.capabilities.vector_bytes // x.dtype.itemsize
    lanes = min(lanes, _MOST_LANES, _WIDEST_REGISTERS // kind.register.itemsize)
    if axis == -1:
        return lanes if x.shape[-1] >= lanes > 1 else 1
    while meet and lanes > max(x.shape[axis], _NARROWEST):
        lanes //= 2
    whole = x.shape[axis] % lanes == 0 or (meet and x.shape[axis] >= lanes)
    return lanes if lanes > 1 and whole else 1
