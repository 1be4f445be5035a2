"""What a name or expression may stand for while a kernel is being translated.

A run-time number is a `Value`, a complex one a `Complex`, an array or part of one a `View`, a
matrix an `ir.types.Fragment`. Everything else is a plain Python object known at compile time:
numbers, dtypes, strings, tuples (whose items may be any of these), words, helper functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable.dtypes import DType
from portable.lang.frontend.inference import Slot
from portable.lang.ir.expressions import Expression
from portable.lang.ir.types import Array, ValueType, Vector, lanes_of, scalar_of
from portable.lang.words import Word

__all__ = ["Complex", "Range", "Value", "View", "describe", "is_number"]


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
    """

    array: Array
    starts: tuple[Expression, ...]
    kept: tuple[int, ...]
    extents: tuple[int | Expression, ...]

    @property
    def ndim(self) -> int:
        """Number of remaining dimensions."""
        return len(self.kept)


@dataclass(frozen=True, slots=True)
class Range:
    """The arguments of ``range`` in a kernel: compile-time ints or values, and the unrolling."""

    start: Any
    stop: Any
    step: Any
    unroll: int = 0
    static: bool = False


def is_number(x: object) -> bool:
    """Whether this is a number, known at compile time or not."""
    return isinstance(x, bool | int | float | complex | Value | Complex)


def describe(x: object) -> str:
    """A short phrase for messages: ``f32 value``, ``the constant 3``, ``2-d f32 array a``."""
    match x:
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
        case DType():
            return f"the dtype {x.short}"
        case Word():
            return f"kl.{x.name} without a call"
        case _:
            return f"{type(x).__name__} {getattr(x, '__name__', x)!s}"
