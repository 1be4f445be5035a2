"""Reductions by any operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, bool_, dtype
from portable.errors import DTypeError, KernelError, ShapeError
from portable.lang.arguments.arguments import constant_key
from portable.lang.arguments.structs import items_of
from portable.lang.function import Function, arity, settled
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.namespace import device_of_arrays
from portable.primitives.base.exchange import takes_other_libraries
from portable.primitives.base.operands import (
    collapsed,
    highest,
    lowest,
    normalized_axes,
    operation,
    reduced_shape,
)
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.base.storage import Storage, new
from portable.primitives.elements import Elements, How, given_back, kinds_of, reduce_elements, typed
from portable.primitives.mapping import filled
from portable.primitives.reductions.axis import cut, reduced
from portable.primitives.reductions.kernels import segments_by_item, segments_by_workgroup
from portable.primitives.reductions.merging import Merge

# -- reducing --------------------------------------------------------------------------------------

_LANES: Final = 4


@kernel
def _combine(*, OP: Any, EACH: Any, GIVEN: Any, KIND: Any, LANES: int) -> None:
    """Combines two vectors and keeps the result, which has to be one of the same type."""
    value = kl.splat(kl.cast(1, GIVEN), LANES)
    total = kl.cast(value if EACH is None else EACH(value), KIND)
    kept = kl.private((1,), KIND, lanes=LANES)
    kept[0] = total
    if OP is not None:
        kept[0] = OP(kept[0], total)


@lru_cache(maxsize=1024)
def takes_vectors(device: Device, op: Any, each: Any, given: DType, kind: DType) -> bool:
    """Whether `op` combines vectors of `kind`, and `each` makes them of vectors of `given`.

    Found out by the language's rules alone; nothing is compiled or run.

    Parameters
    ----------
    device : Device
        Where kernels would run.
    op, each : Function or None
        The operations.
    given : DType
        Of elements.
    kind : DType
        Of totals, in registers.
    """
    if given.is_complex or kind.is_complex:
        return False
    constants = {"OP": op, "EACH": each, "GIVEN": given.register, "KIND": kind, "LANES": _LANES}
    launcher = _combine[1, 1]
    try:
        wanted = launcher.specialised(device, (), [], constants)
        _combine.translated(wanted, device.capabilities)
    except KernelError:
        return False
    return True


Shape = tuple[int, ...]


@dataclass(frozen=True)
class Totals:
    """What to combine, and how.

    Attributes
    ----------
    op : Function
        Combines two totals.
    each : Function or None
        Makes a total of an element.
    given : type or None
        What elements are, as of `Elements.kind`.
    neutral : number, tuple or struct
        Of NumPy's scalars.
    key : object
        What stands for `neutral` in comparisons.
    """

    op: Any
    each: Any
    given: Any
    neutral: Any = field(compare=False)
    key: Any = field(repr=False)

    @property
    def indexed(self) -> bool:
        """Whether `each` takes positions."""
        return self.each is not None and arity(self.each) > 1

    @cached_property
    def kind(self) -> Any:
        """What totals are, as of `Elements.kind`."""
        return kinds_of(self.neutral)[0]

    @cached_property
    def kinds(self) -> tuple[DType, ...]:
        """The dtypes of their fields."""
        return kinds_of(self.neutral)[1]

    def how(self, lead: int, *, again: bool = False) -> How:
        """As kernels take it; `again` for totals of totals."""
        if again:
            return How(self.op, None, False, self.kind, self.kind, lead)
        return How(self.op, self.each, self.indexed, self.given, self.kind, lead)

    def merge(self, x: Storage) -> Merge | None:
        """The same for kernels that combine vectors of numbers; None where they cannot."""
        kind = self.kinds[0]
        if self.kind is not None or self.given is not None or self.indexed or kind.kind == "b":
            return None
        held = kind.register
        if not (kind.is_complex or takes_vectors(x.device, self.op, self.each, x.dtype, held)):
            return None
        return Merge(self.op, held, self.neutral.item(), self.each)


_NEUTRAL: Final[dict[Any, Callable[[DType], Any]]] = {
    kl.add: lambda kind: kind.numpy.type(0),
    kl.multiply: lambda kind: kind.numpy.type(1),
    kl.maximum: lambda kind: kind.numpy.type(lowest(kind)),
    kl.minimum: lambda kind: kind.numpy.type(highest(kind)),
}
"""Of the language's own operations."""


def totals_of(x: Elements, op: Any, neutral: Any, each: Any, kind: Any) -> Totals:
    """What a user asked for.

    Parameters
    ----------
    x : Elements
        The elements.
    op, neutral, each
        As of `reduce`.
    kind : dtype or None
        What it calls `dtype`.

    Raises
    ------
    DTypeError
        For a ufunc that kernels have not, if there is no telling what is neutral, it is made of
        something else than numbers, or it is a bool.
    """
    first, op, each = x.only.dtype, operation(op), operation(each)
    if neutral is None:
        if op not in _NEUTRAL or x.kind is not None:
            raise DTypeError(
                "neutral= is missing, the total of no elements: 0 of a sum, or a struct of numbers "
                "where totals are structs"
            )
        held = first if kind is None else dtype(kind)
        if held is bool_:
            raise DTypeError(
                'bools have no such totals: dtype="int64" counts them; np.logical_or with '
                "neutral=False says whether one is true, np.logical_and with True whether all are"
            )
        if each is None:
            return _of_numbers(op, held)
        neutral = _NEUTRAL[op](held)
    if kind is not None:
        neutral = dtype(kind).numpy.type(neutral)
    elif isinstance(neutral, int | float | complex) and x.kind is None:
        neutral = first.numpy.type(neutral)
    neutral = typed(neutral, first)
    op, each = settled(op), settled(each)
    return Totals(op, each, x.kind, neutral, constant_key(neutral))


@cache
def _of_numbers(op: Function, kind: DType) -> Totals:
    """One of the language's own operations on numbers, which most calls ask for."""
    neutral = _NEUTRAL[op](kind)
    return Totals(op, None, None, neutral, constant_key(neutral))


@takes_other_libraries
def reduce(
    x: Any,
    op: Any = kl.add,
    *,
    neutral: Any = None,
    each: Any = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    dtype: Any = None,
) -> Any:
    """All elements combined by an operation, or all along some axes.

    Parameters
    ----------
    x : array, or tuple or struct of arrays
        Of any library and shape; several arrays of one shape hold elements that are tuples or
        structs of a number from each.
    op : function
        Of two totals, giving one of the same types: ``kl.add``, ``kl.maximum``, any that kernels
        can call, such as ``lambda a, b: a ^ b``, `operator.xor`, or a NumPy ufunc, such as
        ``np.maximum``. It has to be associative and commutative: in which order totals are combined
        is left open.
    neutral : number, tuple or struct of numbers
        The total of nothing, which changes none that it is combined with. It may be left out for
        ``kl.add``, ``kl.multiply``, ``kl.maximum`` and ``kl.minimum`` of numbers. Where totals are
        structs their fields have the types that they are annotated by, else those of these
        numbers; of Python's, integers are `int64` and floats of the precision of `x`.
    each : function, optional
        Makes a total of an element: of ``(element)``, or of ``(element, position)``, the position
        counted in C order along the axes that go. Elements are totals by default.
    axis : int or sequence of int, optional
        Which axes go; by default all.
    keepdims : bool
        Whether they stay with extent 1.
    dtype : dtype, optional
        Of totals that are numbers; by default that of `x`.

    Returns
    -------
    array, or tuple or struct of arrays
        The totals, in the shape of the axes that stay; of no elements, `neutral`. On the device of
        `x` and of its library.

    Raises
    ------
    KernelError
        If `op` or `each` is not in the language, or gives other types than `neutral` has.

    Notes
    -----
    Numbers are read in vectors where `op` and `each` take vectors too, which functions without
    ``if`` do; structs one by one. Totals are combined in chains of bounded length, and these in
    turn, so that sums of floating-point numbers do not drift: of n they are off by
    ``(10 + 4 log2(n)) eps`` of the sum of sizes at most.

    Examples
    --------
    The greatest element and where it is:

    >>> class Found(NamedTuple):
    ...     value: Any
    ...     place: Any
    >>> @pt.function
    ... def greater(a, b):
    ...     first = (a.value == b.value) & (a.place < b.place)
    ...     return kl.where((a.value > b.value) | first, a, b)
    >>> @pt.function
    ... def found(value, place):
    ...     return Found(value, kl.cast(place, kl.i64))
    >>> best = primitives.reduce(
    ...     x, greater, neutral=Found(-math.inf, 2**62), each=found
    ... )  # doctest: +SKIP
    """
    given = Elements.of("reduce", x)
    axes = normalized_axes(tuple(axis) if isinstance(axis, Sequence) else axis, len(given.shape))
    totals = totals_of(given, op, neutral, each, dtype)
    results = _reduced.run(given.arrays, totals, axes)
    if keepdims:
        shape = reduced_shape(given.shape, axes, keepdims=True)
        parts = results if isinstance(results, tuple) else (results,)
        results = tuple(y.shaped(shape) for y in parts)
    return given_back(results, totals.kind)


def _write_reduce(
    arrays: tuple[Storage, ...], totals: Totals, axes: tuple[int, ...]
) -> Callable[..., Any]:
    """What `reduce` has to do for arrays like these."""
    x = arrays[0]
    kept = reduced_shape(x.shape, axes)
    if 0 in x.shape:
        return lambda *_: _of_nothing(x.device, kept, totals.neutral)
    recipe = Recipe(*arrays)
    merge = totals.merge(x)
    if merge is not None:
        out: tuple[Any, ...] = (reduced(recipe, x, axes, merge, totals.kinds[0]),)
    else:
        out = _by_elements(recipe, arrays, totals, axes)
    return recipe.finish(*(y.shaped(kept) for y in out))


def _of_nothing(device: Device, shape: Shape, total: Any) -> tuple[Storage, ...]:
    """New arrays, one for each field of a total of NumPy's scalars."""
    kind, kinds = kinds_of(total)
    items = (total,) if kind is None else items_of(total)
    return tuple(filled(new(device, shape, k), x) for x, k in zip(items, kinds, strict=True))


def _by_elements(
    recipe: Recipe, arrays: tuple[Storage, ...], totals: Totals, axes: tuple[int, ...]
) -> tuple[Storage, ...]:
    """Sections by workgroups, then what these come to, until there is one of each row."""
    views, lead = _grouped(arrays, axes)
    how = totals.how(lead)
    while True:
        outer, length = views[0].shape[:lead], prod(views[0].shape[lead:])
        shares = cut(views[0].viewed((prod(outer), length), (0, 0)), 1, rounds=True)
        out = _new(recipe, (*outer, shares.sections), totals)
        items, given = shares.groups * shares.items, (views, totals.neutral, out)
        recipe.launch(reduce_elements, items, shares.items, *given, HOW=how, CUT=shares.constant)
        if shares.sections == 1:
            return out
        views, how = out, totals.how(lead, again=True)


def _new(recipe: Recipe, shape: Shape, totals: Totals) -> tuple[Storage, ...]:
    return tuple(recipe.empty(shape, kind) for kind in totals.kinds)


def _grouped(arrays: tuple[Storage, ...], axes: tuple[int, ...]) -> tuple[tuple[Storage, ...], int]:
    """Views with the axes that go last, both groups in C order and as few as can be."""
    shape = arrays[0].shape
    groups = [[a for a in range(len(shape)) if a not in axes], list(axes)]
    extents: list[Shape] = []
    steps: list[list[Shape]] = []
    for group in groups:
        extent, strides = collapsed(
            tuple(shape[a] for a in group), [tuple(x.strides[a] for a in group) for x in arrays]
        )
        extents.append(extent)
        steps.append(strides)
    whole = (*extents[0], *extents[1])
    views = tuple(x.viewed(whole, (*steps[0][k], *steps[1][k])) for k, x in enumerate(arrays))
    return views, len(extents[0])


_reduced: Final = Plans(_write_reduce)


# Reductions of segments of a vector.

_WORKGROUP: Final = 128
_LONG: Final = 64
"""From this mean length on a workgroup takes a segment, where work-items share their work."""


@takes_other_libraries
def segmented_reduce(
    x: Any, offsets: Any, op: Any = kl.add, *, neutral: Any = None, dtype: Any = None
) -> Any:
    """The elements of each segment of a vector combined by an operation.

    Parameters
    ----------
    x : array, shape (n,)
        Numbers, of any library.
    offsets : array, shape (s + 1,)
        Where each segment begins, and the last one ends: integers from 0 to n, in ascending order;
        kernels trust them. A segment may be empty.
    op : function
        As of `reduce`: associative and commutative.
    neutral : number, optional
        As of `reduce`: what an empty segment gives.
    dtype : dtype, optional
        Of totals; by default that of `x`.

    Returns
    -------
    array, shape (s,)
        The totals, on the device of `x` and of its library. Those of floating-point numbers are
        combined in chains of 64.

    Raises
    ------
    ShapeError
        If one of the arrays is no vector, or there are no offsets.
    DTypeError
        For offsets that are no integers, and elements that are structs.
    """
    device = device_of_arrays(x, offsets)
    if len(x.shape) != 1 or len(offsets.shape) != 1 or not offsets.shape[0]:
        raise ShapeError(
            f"segmented_reduce takes a vector and one offset more than there are segments, not "
            f"shapes {tuple(x.shape)} and {tuple(offsets.shape)}"
        )
    totals = totals_of(Elements.of("segmented_reduce", x), op, neutral, None, dtype)
    if totals.kind is not None:
        raise DTypeError("segmented_reduce takes numbers; combine structs field by field")
    count, kind = int(offsets.shape[0]) - 1, totals.kinds[0]
    out = device.empty((count,), kind)
    if not count:
        return out
    merge = Merge(totals.op, kind.register, totals.neutral.item())
    if device.capabilities.single_work_items:
        items = min(max(device.capabilities.compute_units, 1) * 8, count)
        segments_by_item[items, 1](x, offsets, out, -(-count // items), MERGE=merge)
    elif int(x.shape[0]) < _LONG * count:
        segments_by_item[count, _WORKGROUP](x, offsets, out, 1, MERGE=merge)
    else:
        segments_by_workgroup[groups(count), _WORKGROUP](x, offsets, out, MERGE=merge)
    return out
