"""Assignment to what is true in a mask: how the work is cut, and launched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.backend import Capabilities
from portable.dtypes import uint64
from portable.errors import ShapeError
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.base.operands import collapsed, number_for, power_of_two
from portable.primitives.base.recipe import Plans, Recipe, resizable
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.maps.work import rows_for_each
from portable.primitives.masks import mask_kernels as masks
from portable.primitives.tuning import row_shares_for


@function
def filled_in_eights(
    mask: kl.Array,
    by_eight: kl.Array,
    value: kl.Scalar,
    x: kl.Array,
    start: kl.Scalar,
    stop: kl.Scalar,
) -> None:
    """Writes `value` where the mask is true, skipping 64 elements at a time where it is all false.

    The array has one dimension; `by_eight` is the mask read as integers of 64 bits, each of eight
    bools.
    """
    whole = start + (stop - start) // 64 * 64
    for first in range(start, whole, 64):
        some = by_eight[first // 8]
        for other in kl.static_range(1, 8):
            some = some | by_eight[first // 8 + other]
        if some != 0:
            for j in range(first, first + 64):
                if mask[j]:
                    x[j] = value
    for j in range(whole, stop):
        if mask[j]:
            x[j] = value


@dataclass(frozen=True)
class Cut:
    """How rows are shared among workgroups; a constant of `fill`.

    Attributes
    ----------
    width : int
        Work-items along a row.
    ahead : int
        Elements of the mask that each reads before it writes the first of the array.
    chunk, rows : int
        Neighbours of a row, and rows, of a workgroup.
    """

    width: int
    ahead: int
    chunk: int
    rows: int


@kernel
def fill(
    mask: kl.Array,
    by_eight: kl.Array | None,
    value: Any,
    x: kl.Array,
    *,
    NUMBER: bool,
    ROW: bool,
    CUT: Cut,
) -> None:
    """``x[mask] = value``.

    Parameters
    ----------
    mask : array
        What is true; it lacks the last dimension of `x` if that is all the same to it.
    by_eight : array or None
        A mask of one dimension as integers of 64 bits.
    value : number or array
        An array has no dimensions.
    x : array
        What is written.
    NUMBER, ROW : bool
        Whether `value` is a number, and whether `mask` lacks a dimension.
    CUT : Cut
        How the work is shared.
    """
    inner = x.shape[x.ndim - 1]
    lead = x.shape[: x.ndim - 1]
    begin = kl.group_id(0) * CUT.chunk
    index = begin + kl.local_id(0)
    stop = kl.minimum(begin + CUT.chunk, inner)
    first = kl.global_id(1) * CUT.rows
    given = value if NUMBER else value[()]
    for row in range(first, kl.minimum(first + CUT.rows, product_of(lead))):
        outer = unravelled(row, lead)
        if by_eight is not None:
            filled_in_eights(mask, by_eight, given, x, begin, stop)
        elif ROW:
            if mask[*outer]:
                for j in range(index, stop, CUT.width):
                    x[*outer, j] = given
        else:
            for j in range(index, stop, CUT.width * CUT.ahead):
                places = [j + u * CUT.width for u in range(CUT.ahead)]
                chosen = [masks.element_if(j < stop, mask, *outer, j) for j in places]
                for u in kl.static_range(CUT.ahead):
                    if chosen[u]:
                        x[*outer, places[u]] = given


@dataclass(frozen=True)
class Assigned(masks.Target):
    """An array to elements of which those of another are assigned in turn.

    Attributes
    ----------
    x : array
        What is assigned to.
    values : array
        What is assigned, in one dimension.
    """

    x: Any
    values: Any

    def put(self, k: Any, at: Any) -> None:
        """Assigns the `k`-th value to the element that comes `at`-th in C order."""
        self.x[*unravelled(at, self.x.shape)] = self.values[k]

    def take(self, section: Any, few: masks.Few, WIDTH: int) -> None:
        """Assigns to those of a section that are chosen; all values are read before."""
        offset, chosen, before = few
        values = [
            masks.element_if(there, self.values, section.done + k)
            for there, k in zip(chosen, before, strict=True)
        ]
        for u in kl.static_range(len(chosen)):
            if chosen[u]:
                self.x[*unravelled(section.begin + offset + u * WIDTH, self.x.shape)] = values[u]


_AHEAD: Final = 8


def filled(x: Any, mask: Any, value: Any) -> None:
    """One value where a mask of the first dimensions of `x` is true; waits for nothing.

    Parameters
    ----------
    x, mask : Array
        They share no memory.
    value : Array or number
        A Python number, or an array without dimensions of the dtype of `x`.
    """
    if x.size and mask.size:
        given = (value,) if isinstance(value, Storage) else ()
        _fill.plan((x, mask, *given))(x, mask, value)


def assigned(x: Any, mask: Any, values: Any) -> None:
    """An element of `values` each where a mask is true; waits for the device to count these.

    Parameters
    ----------
    x, mask : Array
        Of one shape; `mask` is contiguous or has one dimension.
    values : Array
        Of one dimension, contiguous, of the dtype of `x` and not in its memory.

    Raises
    ------
    ShapeError
        If there are more or fewer values; `x` is untouched.
    """
    if mask.size:
        _assignment.plan((x, mask), values.offset & 15)(x, mask, values)
    else:
        _check_count(values, 0)


def _write_fill(arrays: tuple[Any, ...]) -> Callable[..., None]:
    x, mask = arrays[:2]
    spread = (*mask.strides, *(0,) * (x.ndim - mask.ndim))
    shape, (steps, strides) = collapsed(x.shape, [spread, x.strides])
    row = steps[-1] == 0
    flags = mask.viewed(shape[:-1] if row else shape, steps[:-1] if row else steps).at(None, 0)
    target = x.viewed(shape, strides).at(None, 0)
    number = len(arrays) == 2
    ndrange, workgroup, cut = _cut(shape, x.device.capabilities)
    value = number_for(0, x.dtype) if number else arrays[2].at(None, 0)
    constants = {"NUMBER": number, "ROW": row, "CUT": cut}
    by_eight = None
    if len(shape) == 1 and not row and x.device.capabilities.single_work_items:
        by_eight = masks.in_words(mask.viewed(shape, steps), uint64)
    eights = None if by_eight is None else by_eight.at(None, 0)
    args = (flags, eights, value, target)
    launch = resizable(fill[ndrange, workgroup], args, constants)

    def run(x: Any, mask: Any, value: Any) -> None:
        given = number_for(value, x.dtype) if number else value
        begin, words = (mask.buffer, mask.offset), None
        if eights is not None:
            words = eights.at(*begin)
        launch(flags.at(*begin), words, given, target.at(x.buffer, x.offset))

    return run


_fill: Final = Plans(_write_fill)


def _cut(
    shape: tuple[int, ...], capabilities: Capabilities
) -> tuple[tuple[int, int], tuple[int, int], Cut]:
    """The ndrange and the workgroup of `fill`, and how it is cut."""
    inner, rows = shape[-1], prod(shape[:-1])
    share = row_shares_for(capabilities)
    if share.group == 1:
        many = max(1, share.chunk // inner)
        ndrange = -(-inner // share.chunk), -(-rows // many)
        return ndrange, (1, 1), Cut(1, 1, share.chunk, many)
    width = min(share.group, power_of_two(inner))
    ahead = min(_AHEAD, power_of_two(-(-inner // width)))
    tall = share.group // width if rows > 1 else 1
    many = rows_for_each(rows, tall, capabilities)
    ndrange = -(-inner // (width * ahead)) * width, -(-rows // many)
    return ndrange, (width, tall), Cut(width, ahead, width * ahead, many)


def _write_assignment(arrays: tuple[Any, ...], start: int) -> Callable[..., None]:
    """What `assigned` does with values that begin so many bytes behind an aligned address."""
    x, mask = arrays
    cut = masks.cut_of(mask.size, x.device)
    recipe = Recipe(mask)
    bits, counts = masks.packed(recipe, masks.in_line(mask), cut)
    shape, (steps,) = collapsed(x.shape, [x.strides])
    target = x.viewed(shape, steps).at(None, 0)
    values = x.shaped((x.size,)).at(None, start)
    given = masks.Mask(None, None, bits, counts), Assigned(target, values)
    if cut.width == 1:
        launcher, constants = masks.take[cut.sections, 1], {"SECTION": cut.section, "FEW": 64}
        args: tuple[Any, ...] = (*given, None, None)
    else:
        launcher = masks.take_by_workgroup[cut.ndrange, cut.width]
        constants = {"WIDTH": cut.width, "AHEAD": _AHEAD, "FEW": 0}
        args = (*given, None)
    launch = resizable(launcher, args, constants)
    rest = args[2:]
    pack_and_count = recipe.finish(bits, counts)

    def run(x: Any, mask: Any, values: Any) -> None:
        bits, counts = pack_and_count(mask)
        count = masks.how_many(counts, cut)
        _check_count(values, count)
        if count:
            launch(None, None, bits, counts, target.at(x.buffer, x.offset), values, *rest)

    return run


def _check_count(values: Any, count: int) -> None:
    if values.size != count:
        raise ShapeError(f"{values.size} values assigned where a mask is true {count} times")


_assignment: Final = Plans(_write_assignment)
