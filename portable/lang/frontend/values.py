"""What a name or expression may be while a kernel is translated.

A run-time number is a `Value`, a complex one a `Complex`, an array or part of one a `View`, a
matrix an `ir.types.Fragment`, a struct a `Struct` and an array of structs a `StructView`.
Everything else is a plain Python object known at compile time: numbers, dtypes, strings, tuples
(whose items may be any of these), words, helper functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import MethodType
from typing import Any, Final

from portable.dtypes import DType
from portable.lang.arguments.structs import field_names, instance, label, per_class
from portable.lang.frontend.frames import Call, Closure
from portable.lang.ir.expressions import Expression
from portable.lang.ir.types import Array, Fragment, ValueType, Vector, lanes_of, scalar_of
from portable.lang.words.word import word_of


@dataclass(frozen=True, slots=True)
class Slot:
    """A place that holds a weak number: a parameter, a variable, an int made a float."""

    key: Any


@dataclass(frozen=True, slots=True)
class Value:
    """A run-time scalar or vector.

    Attributes
    ----------
    expr : Expression
        Its typed expression.
    weak : bool
        Whether it comes from Python numbers only, so that it takes the type of what it meets.
    slots : frozenset of Slot
        Of weak values: the places whose type must widen if this value is asked for in a wider one.
    """

    expr: Expression
    weak: bool = False
    slots: frozenset[Slot] = frozenset()

    @property
    def type(self) -> ValueType:
        """The type in registers."""
        return self.expr.type

    @property
    def dtype(self) -> DType:
        """The type of one lane."""
        return scalar_of(self.expr.type)

    @property
    def lanes(self) -> int:
        """1 for a scalar."""
        return lanes_of(self.expr.type)

    def made_into(self, expr: Expression) -> Value:
        """What an expression makes of this number alone: as weak as it."""
        return Value(expr, self.weak, self.slots)

    @staticmethod
    def made_of(expr: Expression, *values: Value) -> Value:
        """What an expression makes of several, weak only if all are."""
        if not all(x.weak for x in values):
            return Value(expr)
        return Value(expr, True, frozenset().union(*(x.slots for x in values)))


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex number: two values of the same real type."""

    real: Value
    imag: Value

    @property
    def dtype(self) -> DType:
        """The real type of the components."""
        return self.real.dtype


@dataclass(frozen=True, slots=True)
class View:
    """An array, or the part of it that partial indexing and slicing select.

    Attributes
    ----------
    array : Array
        The whole array.
    starts : tuple of Expression
        Per dimension of `array` the first index, of the kernel's index type.
    kept : tuple of int
        The dimensions of `array` that remain, in the view's order.
    extents : tuple of (int, Expression)
        Per kept dimension its extent, an int where it is known at compile time.
    steps : tuple of int
        Per dimension of `array` how far it is to the next element; empty where all are neighbours.
    """

    array: Array
    starts: tuple[Expression, ...]
    kept: tuple[int, ...]
    extents: tuple[int | Expression, ...]
    steps: tuple[int, ...] = ()

    @property
    def ndim(self) -> int:
        """Number of remaining dimensions."""
        return len(self.kept)


@dataclass(frozen=True, slots=True)
class Struct:
    """A frozen dataclass or NamedTuple, whose fields may be anything that a name stands for."""

    kind: type
    items: tuple[Any, ...]

    def field(self, name: str) -> Any:
        """The field of a name.

        Raises
        ------
        ValueError
            If there is none.
        """
        return self.items[field_names(self.kind).index(name)]


@dataclass(frozen=True, slots=True)
class Super:
    """``super()``: a struct whose methods are looked for above a class."""

    owner: type
    struct: Struct


@dataclass(frozen=True, slots=True)
class StructView:
    """An array of structs, or part of one: per field an array, of numbers or of structs."""

    kind: type
    items: tuple[View | StructView, ...]

    def field(self, name: str) -> View | StructView:
        """The array of a field.

        Raises
        ------
        ValueError
            If there is none.
        """
        return self.items[field_names(self.kind).index(name)]

    @property
    def first(self) -> View:
        """The array of some number in it; those of all have the same shape."""
        view = self.items[0]
        return view if isinstance(view, View) else view.first


@dataclass(frozen=True, slots=True)
class Range:
    """The arguments of ``range`` in a kernel: compile-time ints or values, and the unrolling."""

    start: Any
    stop: Any
    step: Any
    unroll: int = 0
    static: bool = False


@dataclass(frozen=True, slots=True)
class VectorRange:
    """What ``kl.vector_range`` runs over: all of a range, and in how many lanes most of it."""

    whole: Range
    lanes: int


@dataclass(frozen=True, slots=True)
class Product:
    """What ``itertools.product`` gives, of which some part is a range: loops within each other."""

    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Elements:
    """What ``kl.elements`` runs over: those elements of a matrix that a work-item holds."""

    fragment: Fragment


_LOOPS: Final = (Range, VectorRange, Product, Elements)
_AT_RUN_TIME: Final = (Value, Complex, View, StructView, Fragment, *_LOOPS)
_NUMBERS: Final = (bool, int, float, complex, Value, Complex)
_CHANGING: Final = (Value, Expression)
_OF_PARTS: Final = (tuple, slice, MethodType)
_OF_KERNELS: Final = ("portable.lang.frontend.", "portable.lang.ir.")
"""Modules whose classes stand for what is in kernels alone."""
IN_KERNELS: Final = (*_AT_RUN_TIME, Struct)
"""Types of what names stand for in kernels alone."""


def is_number(x: object) -> bool:
    """Whether this is a number, known at compile time or not."""
    return isinstance(x, _NUMBERS)


def is_integer(x: object) -> bool:
    """Whether this is an integer and no vector, known at compile time or not."""
    if isinstance(x, Value):
        return x.lanes == 1 and x.dtype.is_integer
    return isinstance(x, int) and not isinstance(x, bool)


def items_in(x: object) -> tuple[Any, ...] | None:
    """What a tuple or struct holds; None of anything else."""
    if isinstance(x, Struct):
        return x.items
    return x if isinstance(x, tuple) else None


def sequence(x: object) -> tuple[Any, ...] | None:
    """What Python would run through in a tuple or NamedTuple; None of anything else."""
    if isinstance(x, Struct):
        return x.items if issubclass(x.kind, tuple) else None
    return x if isinstance(x, tuple) else None


def like(x: Any, items: Iterable[Any]) -> Any:
    """A tuple, or a struct of the type of `x`, that holds other items."""
    return Struct(x.kind, tuple(items)) if isinstance(x, Struct) else tuple(items)


def labelled(x: Any) -> list[tuple[str, Any]]:
    """The items of a tuple or struct, each with how it is written: ``[0]`` or ``.name``."""
    kind = x.kind if isinstance(x, Struct) else tuple
    return [(label(kind, i), item) for i, item in enumerate(items_in(x) or ())]


def leaves(x: Any) -> Iterator[Any]:
    """What is in a tuple or struct, in those within it, and so on; a thing itself if it is none."""
    items = items_in(x)
    if items is None:
        yield x
    else:
        for item in items:
            yield from leaves(item)


def map_leaves(function: Callable[[Any], Any], x: Any) -> Any:
    """The same tuple or struct of what a function makes of its leaves."""
    items = items_in(x)
    if items is None:
        return function(x)
    return like(x, (map_leaves(function, item) for item in items))


SHAPE: Final = ".shape"


def rebuilt(function: Callable[[Any, str], Any], x: Any, name: str) -> Any:
    """The same thing, of what `function` makes of each `Value` and `Expression` in it, and a name.

    That of an extent ends in `SHAPE`.

    Parameters
    ----------
    function : callable
        ``function(x, name)`` of each `Value` and `Expression`.
    x : anything
        What a name of the kernel stands for.
    name : str
        Of the whole; those of its parts begin with it.

    Raises
    ------
    TypeError
        Of a class of things in kernels that this function does not know.
    """
    if isinstance(x, _CHANGING):
        return function(x, name)
    if not _has_parts(type(x)):
        return x

    def part(item: Any, label: str = "") -> Any:
        return rebuilt(function, item, name + label)

    match x:
        case Complex():
            return Complex(part(x.real, "_re"), part(x.imag, "_im"))
        case tuple() | Struct():
            return like(x, (part(item, label) for label, item in labelled(x)))
        case View():
            extents = (part(extent, SHAPE) for extent in x.extents)
            return View(x.array, tuple(map(part, x.starts)), x.kept, tuple(extents), x.steps)
        case StructView():
            return StructView(x.kind, tuple(map(part, x.items)))
        case Range():
            return Range(part(x.start), part(x.stop), part(x.step), x.unroll, x.static)
        case VectorRange():
            return VectorRange(part(x.whole), x.lanes)
        case Product():
            return Product(tuple(map(part, x.parts)))
        case slice():
            return slice(part(x.start), part(x.stop), part(x.step))
        case MethodType():
            return MethodType(x.__func__, part(x.__self__))
        case Fragment() | Elements() | Closure():
            return x
    raise TypeError(f"{type(x).__name__} has parts that may change, and no copy is made of them")


@per_class
def _has_parts(kind: type[Any]) -> bool:
    """Whether what is of a class may be made of things whose values change."""
    return issubclass(kind, _OF_PARTS) or kind.__module__.startswith(_OF_KERNELS)


def map_parts(function: Callable[[Any], Any], x: Any) -> Any:
    """As `map_leaves`, and of a complex number of each of its two parts."""

    def leaf(item: Any) -> Any:
        if isinstance(item, Complex):
            return Complex(function(item.real), function(item.imag))
        return function(item)

    return map_leaves(leaf, x)


def at_run_time(x: object) -> bool:
    """Whether a thing, or some leaf of it, is only known at run time."""
    return any(_at_run_time(leaf) for leaf in leaves(x))


def _at_run_time(leaf: object) -> bool:
    match leaf:
        case slice():
            return at_run_time((leaf.start, leaf.stop, leaf.step))
        case MethodType():
            return at_run_time(leaf.__self__)
        case _:
            return isinstance(leaf, _AT_RUN_TIME)


def plain(x: Any) -> Any:
    """A constant as Python's own code knows it: structs are what they were before."""
    items = items_in(x)
    if items is None:
        return x
    kind = x.kind if isinstance(x, Struct) else tuple
    return instance(kind, tuple(map(plain, items)))


def known_in(call: Call) -> tuple[Any, ...]:
    """What is known of a call's arguments at compile time; equal where calls are inlined alike."""
    return tuple(map(_fixed_in, call.arguments))


def _fixed_in(x: Any) -> Any:
    """What is known of an argument at compile time; equal where calls are inlined alike."""
    items = items_in(x)
    if items is not None:
        return (describe(x), *map(_fixed_in, items))
    if isinstance(x, Value):
        return x.type, x.weak
    return (x.array, x.kept) if isinstance(x, View) else repr(x)


def describe(x: object) -> str:
    """A short phrase for messages: ``f32 value``, ``the constant 3``, ``2-d f32 array a``."""
    match x:
        case Range() | VectorRange() | Product() | Elements():
            return "the range of a loop"
        case slice():
            return "a slice"
        case Value():
            kind = x.type
            name = repr(kind) if isinstance(kind, Vector) else kind.short
            return f"a number of type {x.dtype.short}" if x.weak else f"{name} value"
        case Complex():
            return f"complex value of {x.dtype.short} parts"
        case View():
            return f"{x.ndim}-d {x.array.dtype.short} {x.array.space} array {x.array.name}"
        case bool() | int() | float() | complex() | str() | None:
            return f"the constant {x!r}"
        case tuple():
            return f"a tuple of {len(x)}"
        case Struct():
            return f"a {x.kind.__name__}"
        case StructView():
            return f"{x.first.ndim}-d {x.first.array.space} array of {x.kind.__name__}"
        case DType():
            return f"the dtype {x.short}"
        case Closure():
            return x.label
        case _:
            word = word_of(x)
            if word:
                return f"kl.{word.name} without a call"
            return f"{type(x).__name__} {getattr(x, '__name__', x)!s}"
