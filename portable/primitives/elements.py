"""Elements that are structs: each of their fields is an array's.

An array holds elements of its dtype; a tuple or struct of arrays of one shape, elements that are
tuples or structs of numbers.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from portable import dtypes
from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.errors import DTypeError, ShapeError
from portable.lang.arguments.structs import declared_types, instance, is_composite, items_of, label
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.namespace import device_of_arrays
from portable.primitives.base.storage import Storage, released, stored
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.reductions.axis import section_at
from portable.primitives.reductions.merging import CHAIN, CHAINS, next_stop
from portable.primitives.scans.board_kernels import chain_added, total_of_levels


@dataclass(frozen=True)
class Elements:
    """Arrays of one device and shape whose elements belong together.

    Attributes
    ----------
    arrays : tuple of Storage
        One per field.
    kind : type or None
        What an element is: a struct's class, ``tuple``, or None for a number.
    """

    arrays: tuple[Storage, ...]
    kind: Any

    @classmethod
    def of(cls, name: str, given: Any) -> Elements:
        """What a user gave to a function of a name.

        Raises
        ------
        TypeError
            If something in it is no array.
        DeviceMismatchError
            If the arrays are of different devices.
        ShapeError
            If their shapes differ.
        """
        kind = type(given)
        if not is_composite(kind):
            return cls((stored(device_of_arrays(given), given),), None)
        fields = items_of(given)
        device = device_of_arrays(*fields)
        arrays = tuple(stored(device, x) for x in fields)
        for position, x in enumerate(arrays):
            if x.shape != arrays[0].shape:
                raise ShapeError(
                    f"{name} takes arrays of one shape; x{label(kind, 0)} has {arrays[0].shape}, "
                    f"x{label(kind, position)} {x.shape}"
                )
        return cls(arrays, kind)

    @property
    def device(self) -> Device:
        """Where they live."""
        return self.arrays[0].device

    @property
    def shape(self) -> tuple[int, ...]:
        """Of each."""
        return self.arrays[0].shape

    @property
    def only(self) -> Storage:
        """The array, if there is one."""
        return self.arrays[0]


def given_back(results: Storage | tuple[Storage, ...], kind: Any) -> Any:
    """The libraries' arrays for what a plan gave, in a struct or tuple of `Elements`' kind."""
    parts = results if isinstance(results, tuple) else (results,)
    return released(parts[0]) if kind is None else instance(kind, tuple(map(released, parts)))


def typed(x: Any, like: DType) -> Any:
    """A number, or a tuple or struct of numbers, as NumPy's scalars.

    A struct's fields that are annotated by dtypes have these. Else Python's integers become
    `int64`, its floats and complex numbers those of `like`'s precision.

    Raises
    ------
    DTypeError
        For what is no number, or none of its field's dtype.
    """
    kind = type(x)
    if is_composite(kind):
        declared = declared_types(kind) if kind is not tuple else {}
        items = []
        for position, item in enumerate(items_of(x)):
            name = label(kind, position)
            wanted = declared.get(name[1:])
            if isinstance(wanted, DType):
                items.append(_as_declared(item, wanted, kind.__name__ + name))
            else:
                items.append(typed(item, like))
        return instance(kind, tuple(items))
    if isinstance(x, np.generic):
        return x
    if isinstance(x, bool):
        return np.bool_(x)
    if isinstance(x, int):
        return np.int64(x)
    wide = (like.itemsize == 8 and not like.is_complex) or like is dtypes.complex128
    if isinstance(x, float):
        return np.float64(x) if wide else np.float32(x)
    if isinstance(x, complex):
        return np.complex128(x) if wide else np.complex64(x)
    raise DTypeError(f"a total is made of numbers, not of {type(x).__name__} {x!r}")


def _as_declared(x: Any, wanted: DType, name: str) -> Any:
    """A number as a NumPy scalar of the dtype that its field is annotated by."""
    try:
        made = wanted.numpy.type(x)
        if made == x or not wanted.is_integer:
            return made
    except (TypeError, ValueError, OverflowError):
        pass
    raise DTypeError(f"{name} is annotated as {wanted}, and {x!r} is no number of that type")


def kinds_of(x: Any) -> tuple[Any, tuple[DType, ...]]:
    """What a total of NumPy's scalars is, as `Elements.kind`, and the dtypes of its fields."""
    if not is_composite(type(x)):
        return None, (dtypes.dtype(x.dtype),)
    for position, item in enumerate(items_of(x)):
        if is_composite(type(item)):
            raise DTypeError(
                f"the field {label(type(x), position)} of a {type(x).__name__} is a "
                f"{type(item).__name__}; elements in memory have fields that are numbers"
            )
    return type(x), tuple(dtypes.dtype(item.dtype) for item in items_of(x))


# -- in kernels -------------------------------------------------------------------------------


@function
def element_at(arrays: tuple[kl.Array, ...], index: tuple[kl.Scalar, ...], KIND: Any) -> Any:
    """The element at an index: a number, or a struct or tuple of one from each array."""
    return made_of([array[*index] for array in arrays], KIND)


@function
def made_of(items: Any, KIND: Any) -> Any:
    """The element of a number from each array."""
    if KIND is None:
        return items[0]
    return items if KIND is tuple else KIND(*items)


@function
def put_neighbours(
    arrays: tuple[kl.Array, ...], index: tuple[kl.Scalar, ...], values: Any, KIND: Any
) -> None:
    """Writes elements side by side along the last axis, as a vector of each field."""
    items = [(value,) if KIND is None else fields_of(value, KIND) for value in values]
    for k in kl.static_range(len(arrays)):
        row = kl.vector(*[item[k] for item in items])
        kl.vstore(arrays[k], *index, kl.cast(row, arrays[k].dtype))


@function
def put_at(
    arrays: tuple[kl.Array, ...], index: tuple[kl.Scalar, ...], value: Any, KIND: Any
) -> None:
    """Writes it."""
    if KIND is None:
        arrays[0][*index] = value
    else:
        items = fields_of(value, KIND)
        for k in kl.static_range(len(arrays)):
            arrays[k][*index] = items[k]


@function
def fields_of(value: Any, KIND: Any) -> Any:
    """The fields of a struct, or the items of a tuple."""
    return tuple(value) if issubclass(KIND, tuple) else astuple(value)


# Reductions, scans and maps of elements of any kind, one at a time.
#
# Of numbers, operations that work on vectors have kernels of their own in `reductions` and `scans`.

_CHAIN = 4 * CHAIN
"""Running totals that a work-item goes on from one to the next: so many that their end is cheap."""


@dataclass(frozen=True)
class How:
    """What is done to elements; a constant of the kernels.

    Attributes
    ----------
    op : Function
        Combines two totals.
    each : Function or None
        Makes a total of an element; None where elements are totals already.
    indexed : bool
        Whether `each` also takes the element's position.
    given, total : type or None
        What elements and totals are, as of `portable.primitives.elements.Elements.kind`.
    lead : int
        Dimensions of the arrays that are kept; those behind them are worked along.
    """

    op: Any
    each: Any
    indexed: bool
    given: Any
    total: Any
    lead: int

    def value(
        self, arrays: tuple[kl.Array, ...], outer: tuple[kl.Scalar, ...], i: kl.Scalar
    ) -> Any:
        """The total of the one element that comes `i`-th in its row."""
        along = unravelled(i, arrays[0].shape[self.lead :])
        return self.total_of(element_at(arrays, (*outer, *along), self.given), i)

    def total_of(self, value: Any, i: kl.Scalar) -> Any:
        """The total of an element alone, which comes `i`-th in its row."""
        if self.each is None:
            return value
        return self.each(value, i) if self.indexed else self.each(value)

    def neighbours(
        self, arrays: tuple[kl.Array, ...], outer: tuple[kl.Scalar, ...], i: kl.Scalar, count: int
    ) -> Any:
        """The totals of so many elements from the `i`-th on, loaded as vectors of each field."""
        rows = [kl.vload(array, *outer, i, lanes=count) for array in arrays]
        return tuple(
            [
                self.total_of(made_of([row[k] for row in rows], self.given), i + k)
                for k in range(count)
            ]
        )


@kernel
def reduce_elements(
    arrays: tuple[kl.Array, ...], neutral: Any, out: tuple[kl.Array, ...], *, HOW: How, CUT: Any
) -> None:
    """Reduces the sections of rows that `CUT` says: ``out[..., s]`` is the `s`-th's total."""
    shape, step = arrays[0].shape, CHAINS * CUT.width
    section = CUT.own(shape[: HOW.lead], product_of(shape[HOW.lead :]))
    total = neutral
    if section.inside:
        first = section.first + kl.local_id(0) % CUT.width
        whole = first + kl.maximum(section.stop - first, 0) // step * step
        totals = tuple([neutral for _ in range(CHAINS)])
        # In chains of bounded length: see `merging`.
        for begin in range(first, whole, CHAIN * step):
            chain = tuple([neutral for _ in range(CHAINS)])
            for i in range(begin, next_stop(begin, whole, step), step):
                chain = tuple(
                    [
                        HOW.op(chain[k], HOW.value(arrays, section.outer, i + k * CUT.width))
                        for k in range(CHAINS)
                    ]
                )
            totals = tuple([HOW.op(totals[k], chain[k]) for k in range(CHAINS)])
        for i in range(whole, section.stop, CUT.width):
            total = HOW.op(total, HOW.value(arrays, section.outer, i))
        for k in kl.static_range(CHAINS):
            total = HOW.op(total, totals[k])
    total = kl.workgroup_reduce(HOW.op, total, width=CUT.width)
    if section.inside and kl.local_id(0) % CUT.width == 0:
        put_at(out, (*section.outer, section.number), total, HOW.total)


@dataclass(frozen=True)
class Scan:
    """How running totals are made of elements; a constant of `scan_elements`.

    Attributes
    ----------
    section : int
        Elements of the last axis that a workgroup does.
    ahead : int
        Neighbours that each work-item holds at a time, so that the order of elements is kept.
    vectors : bool
        Whether they are loaded and stored as vectors, which serves whole lines of memory.
    inclusive : bool
        Whether an element's own is in its total.
    totals : bool
        Whether only the total of each section is wanted.
    """

    section: int
    ahead: int
    vectors: bool
    inclusive: bool
    totals: bool = False


@function
def running_totals(op: Any, before: Any, values: Any, inclusive: bool) -> Any:
    """Those of a few values, which go on from the total before them."""
    upto = op(before, values[0])
    first = upto if inclusive else before
    if len(values) == 1:
        return (first,)
    return (first, *running_totals(op, upto, values[1:], inclusive))


@kernel
def scan_elements(
    arrays: tuple[kl.Array, ...],
    starts: tuple[kl.Array, ...],
    neutral: Any,
    out: tuple[kl.Array, ...],
    *,
    HOW: How,
    SCAN: Scan,
) -> None:
    """Running totals within sections of the last axis, or the total of each: ``out[..., s]``.

    They go on from the totals up to the end of each section that `starts` has, if it is not empty.
    """
    AHEAD = SCAN.ahead
    section = section_at(arrays[0], SCAN.section, kl.group_id(0))
    outer, first, stop = section.outer, section.first, section.stop
    carried = neutral
    if len(starts) > 0 and section.number > 0:
        carried = element_at(starts, (*outer, section.number - 1), HOW.total)
    if kl.local_size(0) == 1:
        # In chains of bounded length: see `board_kernels`.
        levels = (neutral, neutral, carried)
        for begin in range(first, stop, _CHAIN):
            upto, chain = total_of_levels(levels, HOW.op), neutral
            for i in range(begin, begin + kl.minimum(stop - begin, _CHAIN)):
                before = chain
                chain = HOW.op(before, HOW.value(arrays, outer, i))
                if not SCAN.totals:
                    done = HOW.op(upto, chain if SCAN.inclusive else before)
                    put_at(out, (*outer, i), done, HOW.total)
            levels = chain_added(levels, (begin - first) // _CHAIN, chain, neutral, HOW.op)
        carried = total_of_levels(levels, HOW.op)
        first = stop
    for tile in range(first, stop, kl.local_size(0) * AHEAD):
        begin = tile + kl.local_id(0) * AHEAD
        end = kl.minimum(begin + AHEAD, stop)
        total, whole = neutral, SCAN.vectors and tile + kl.local_size(0) * AHEAD <= stop
        held = tuple([neutral for _ in range(AHEAD)])
        if whole:
            held = HOW.neighbours(arrays, outer, begin, AHEAD)
            for k in kl.static_range(AHEAD):
                total = HOW.op(total, held[k])
        else:
            for i in range(begin, end):
                total = HOW.op(total, HOW.value(arrays, outer, i))
        before, carried = kl.workgroup_scan(
            HOW.op, total, inclusive=False, initial=carried, total=True
        )
        if not SCAN.totals and whole:
            running = running_totals(HOW.op, before, held, SCAN.inclusive)
            put_neighbours(out, (*outer, begin), running, HOW.total)
        elif not SCAN.totals:
            for i in range(begin, end):
                upto = HOW.op(before, HOW.value(arrays, outer, i))
                put_at(out, (*outer, i), upto if SCAN.inclusive else before, HOW.total)
                before = upto
    if SCAN.totals and kl.local_id(0) == 0:
        put_at(out, (*outer, section.number), carried, HOW.total)


@kernel
def map_elements(
    arrays: tuple[kl.Array, ...], out: tuple[kl.Array, ...], *, HOW: How, CHUNK: int
) -> None:
    """``out[i] = each(x[i])``, `CHUNK` neighbours for each work-item."""
    shape = arrays[0].shape
    start = kl.global_id(0) * CHUNK
    for i in range(start, kl.minimum(start + CHUNK, product_of(shape))):
        put_at(out, unravelled(i, shape), HOW.value(arrays, (), i), HOW.total)
