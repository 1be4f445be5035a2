"""Promotion and conversion of numbers: the Array API's within a kind, integer with float the float.

Weak numbers, those that come from Python, take the type of what they meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from portable import dtypes
from portable.dtypes import dtype as dtype_of
from portable.lang.arguments.structs import is_composite, items_of
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.values import (
    IN_KERNELS,
    Complex,
    Slot,
    Struct,
    StructView,
    Value,
    View,
    describe,
)
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes
from portable.lang.ir.facts import whole
from portable.lang.ir.types import Vector, vector_type
from portable.lang.words.word import word_of

Number = Any
"""A Python number, a `Value` or a `Complex`."""


def register_of(builder: Builder, dtype: dtypes.DType) -> dtypes.DType:
    """The register type that a memory type is computed in; refuses what the device lacks."""
    if dtype is dtypes.float16:
        return dtypes.float16 if builder.options.native_half else dtypes.float32
    register = dtype.real.register
    if register is dtypes.float64 and not builder.capabilities.float64:
        builder.unsupported(
            f"{dtype.name} needs double precision, which "
            f"{builder.capabilities.name} lacks; use a narrower type or another device"
        )
    return register


def promote_dtypes(builder: Builder, x: dtypes.DType, y: dtypes.DType) -> dtypes.DType:
    """The register type that two strong register types meet in.

    Parameters
    ----------
    builder : Builder
    x, y : DType
    """
    if x is y:
        return x
    if dtypes.bool_ in (x, y):
        other = y if x is dtypes.bool_ else x
        builder.fail(
            f"bool and {other.short} do not mix", f"convert the bool first: kl.{other.short}(...)"
        )
    if x.is_float or y.is_float:
        floats = [d for d in (x, y) if d.is_float]
        return max(floats, key=lambda d: d.itemsize)
    if x.kind == y.kind:
        return max(x, y, key=lambda d: d.itemsize)
    signed, unsigned = (x, y) if x.kind == "i" else (y, x)
    if unsigned is dtypes.uint64:
        builder.fail(
            f"{signed.short} and u64 have no common type",
            "convert one of them: kl.i64(...) or kl.u64(...)",
        )
    return dtypes.int64


def default_dtype(builder: Builder, x: Number) -> dtypes.DType:
    """The type a weak number takes when it meets no strong one."""
    if isinstance(x, Value):
        return x.dtype
    if isinstance(x, bool):
        return dtypes.bool_
    if isinstance(x, int):
        fits = -(2**31) <= x < 2**31
        return builder.index_type if fits else dtypes.int64 if x < 2**63 else dtypes.uint64
    return dtypes.float32


def _kind_rank(x: Number) -> int:
    if isinstance(x, bool) or (isinstance(x, Value) and x.dtype is dtypes.bool_):
        return 0
    if isinstance(x, int) or (isinstance(x, Value) and x.dtype.is_integer):
        return 1
    return 2


def _is_weak(x: Number) -> bool:
    return not isinstance(x, Value) or x.weak


def common_dtype(builder: Builder, *numbers: Number) -> tuple[dtypes.DType, bool]:
    """The register type that numbers meet in, and whether it is weak."""
    strong = [x.dtype for x in numbers if isinstance(x, Value) and not x.weak]
    weak = [x for x in numbers if _is_weak(x)]
    dtype = None
    for candidate in strong:
        dtype = candidate if dtype is None else promote_dtypes(builder, dtype, candidate)
    if dtype is None:
        ranked = max(weak, key=lambda x: (_kind_rank(x), default_dtype(builder, x).itemsize))
        return default_dtype(builder, ranked), True
    highest = max((_kind_rank(x) for x in weak), default=0)
    if dtype is dtypes.bool_ and any(_kind_rank(x) for x in weak):
        builder.fail("bool and a number do not mix", "convert the bool first: kl.i32(...)")
    if dtype is not dtypes.bool_ and any(_kind_rank(x) == 0 for x in weak):
        builder.fail("a bool and a number do not mix", "convert the bool first: kl.i32(...)")
    if highest == 2 and not dtype.is_float:
        floats = [default_dtype(builder, x) for x in weak if _kind_rank(x) == 2]
        return max(floats, key=lambda d: d.itemsize), True
    return dtype, False


def unify(builder: Builder, *numbers: Number) -> tuple[Value, ...]:
    """Numbers converted to their common type, scalars spread to the vectors among them."""
    plain = _plainly_unified(builder, *numbers) if len(numbers) == 2 else None
    if plain is not None:
        return plain
    dtype, weak = common_dtype(builder, *numbers)
    if not weak:
        return spread(builder, [as_type(builder, x, dtype) for x in numbers])
    slots = frozenset().union(*(_slots(x) for x in numbers))
    carried = any(builder.inference.carriers[s].is_float == dtype.is_float for s in slots)
    if not carried:
        slot, dtype = _site(builder, dtype)
        slots |= {slot}
    values = [Value(as_type(builder, x, dtype).expr, True, slots) for x in numbers]
    return spread(builder, values)


def _plainly_unified(builder: Builder, x: Number, y: Number) -> tuple[Value, Value] | None:
    """Two strong scalars of one type, or one and a number of Python that it takes to its type."""
    if not isinstance(x, Value):
        swapped = _plainly_unified(builder, y, x) if isinstance(y, Value) else None
        return swapped and (swapped[1], swapped[0])
    kind = x.expr.type
    if x.weak or isinstance(kind, Vector):
        return None
    if isinstance(y, Value):
        return (x, y) if y.expr.type is kind and not y.weak else None
    if (type(y) is int and kind is not dtypes.bool_) or (type(y) is float and kind.is_float):
        return x, Value(_literal(builder, y, kind))
    return None


def _slots(x: Number) -> frozenset[Slot]:
    return x.slots if isinstance(x, Value) and x.weak else frozenset()


def _site(builder: Builder, dtype: dtypes.DType) -> tuple[Slot, dtypes.DType]:
    """A slot for a weak number that arises here, and the type that carries it."""
    slot = Slot(("site", str(builder.location), builder.name("site")))
    return slot, builder.inference.carrier(slot, dtype)


def spread(builder: Builder, values: list[Value]) -> tuple[Value, ...]:
    """Scalars among vectors become vectors of the same width."""
    lanes = {v.lanes for v in values if v.lanes > 1}
    if len(lanes) > 1:
        builder.fail(f"vectors of {' and '.join(map(str, sorted(lanes)))} lanes do not mix")
    if not lanes:
        return tuple(values)
    width = lanes.pop()
    builder.meet(*values)
    return tuple(v if v.lanes > 1 else splat(v, width) for v in values)


def splat(x: Value, lanes: int) -> Value:
    """A scalar in every lane of a vector; for one lane itself."""
    if lanes == 1:
        return x
    return x.made_into(e.Splat(x.expr, Vector(x.dtype, lanes)))


def as_value(builder: Builder, x: Number) -> Value:
    """A number as a run-time value; constants stay weak."""
    if isinstance(x, Value):
        return x
    if isinstance(x, Complex):
        builder.fail("a complex number cannot be used here", "take x.real or x.imag")
    if not isinstance(x, bool | int | float):
        builder.fail(f"a number is needed here, not {describe(x)}")
    slot, dtype = _site(builder, default_dtype(builder, x))
    return Value(as_type(builder, x, dtype).expr, True, frozenset({slot}))


def as_type(builder: Builder, x: Number, dtype: dtypes.DType) -> Value:
    """A number implicitly converted to a register type, which must hold its kind.

    Parameters
    ----------
    builder : Builder
    x : number or Value
    dtype : DType
        The register type.
    """
    if isinstance(x, Value):
        if x.dtype is dtype:
            return Value(x.expr)
        builder.inference.widen(x, dtype)
        return _cast_value(x, dtype)
    return Value(_literal(builder, x, dtype))


def _literal(builder: Builder, x: Number, dtype: dtypes.DType) -> e.Const:
    if isinstance(x, complex):
        builder.fail(f"the complex number {x} cannot become {dtype.short}")
    if not isinstance(x, bool | int | float):
        builder.fail(f"a number is needed here, not {describe(x)}")
    if dtype is dtypes.bool_:
        if not isinstance(x, bool):
            builder.fail(f"a bool is needed here, not {x!r}", f"write {x!r} != 0")
        return e.Const(x, dtype)
    if dtype.is_float:
        return e.Const(float(x), dtype)
    if isinstance(x, float):
        builder.fail(
            f"the float {x!r} cannot become {dtype.short}", f"write kl.{dtype.short}({x!r})"
        )
    held = whole(dtype)
    if not held.low <= x <= held.high:
        builder.fail(
            f"{x} does not fit {dtype.short}, which holds {held.low} to {held.high}",
            "convert the other operand to a wider type, or write the literal in range",
        )
    return e.Const(int(x), dtype)


def _cast_value(x: Value, dtype: dtypes.DType, storage: dtypes.DType | None = None) -> Value:
    target = vector_type(dtype, x.lanes)
    if x.type == target and storage is None:
        return Value(x.expr)
    if isinstance(x.expr, e.Const) and storage is None:
        folded = _fold_cast(x.expr, dtype)
        if folded is not None:
            return Value(folded)
    return Value(e.Cast(x.expr, target, storage))


def _fold_cast(x: e.Const, dtype: dtypes.DType) -> e.Const | None:
    if dtype.is_float:
        return e.Const(_rounded(x.value, dtype), dtype)
    if dtype.is_integer and isinstance(x.value, bool | int):
        wrapped = int(x.value) % 2**dtype.bits
        if dtype.kind == "i" and wrapped >= 2 ** (dtype.bits - 1):
            wrapped -= 2**dtype.bits
        return e.Const(wrapped, dtype)
    return None


def _rounded(x: float, dtype: dtypes.DType) -> float:
    """`x` as a floating-point type holds it; infinite where it is too large."""
    with np.errstate(over="ignore"):
        return float(np.asarray(x).astype(dtype.numpy))


def cast(builder: Builder, x: Number, dtype: dtypes.DType) -> Value | Complex:
    """An explicit conversion, as ``kl.i8(x)`` asks for.

    Parameters
    ----------
    builder : Builder
    x : number or Value
    dtype : DType
        Of any width; it is narrowed to, and widened again.
    """
    if dtype.is_complex:
        zero, of_parts = e.Const(0.0, dtype.real), isinstance(x, Complex | complex)
        parts = x if of_parts else Complex(as_value(builder, x), Value(zero))
        real, imag = cast(builder, parts.real, dtype.real), cast(builder, parts.imag, dtype.real)
        assert isinstance(real, Value)
        assert isinstance(imag, Value)
        return Complex(real, imag)
    if isinstance(x, Complex | complex):
        builder.fail("a complex number cannot become a real one", "take x.real or x.imag")
    register = register_of(builder, dtype)
    storage = dtype if dtype is not register else None
    if not isinstance(x, Value):
        number = _saturated(x, dtype) if isinstance(x, float) and dtype.is_integer else x
        x = _explicit_constant(builder, number, register)
    else:
        builder.inference.widen(x, register)
    if storage is not None and storage.is_integer and x.dtype.is_float:
        return _limited(_cast_value(x, register), storage)
    return _cast_value(x, register, storage)


def _limited(x: Value, dtype: dtypes.DType) -> Value:
    """What a float became, limited to what a narrower integer holds."""
    held = whole(dtype)
    if held.low:
        x = Value(nodes.binary("max", x.expr, held.low))
    return Value(nodes.binary("min", x.expr, held.high))


def constant(builder: Builder, x: Any) -> Any:
    """A constant as kernels know it.

    NumPy's numbers and dtypes become the language's, a struct a `Struct` of its fields.
    """
    if isinstance(x, IN_KERNELS):
        return x
    if is_composite(type(x)):
        items = tuple(constant(builder, item) for item in items_of(x))
        return items if type(x) is tuple else Struct(type(x), items)
    if isinstance(x, np.generic):
        return cast(builder, x.item(), dtype_of(x.dtype))
    if isinstance(x, np.dtype) or (isinstance(x, type) and issubclass(x, np.generic)):
        return dtype_of(x)
    return x


def _explicit_constant(builder: Builder, x: Number, dtype: dtypes.DType) -> Value:
    """A Python number as the nearest exact run-time constant before an explicit conversion."""
    if not isinstance(x, bool | int | float):
        builder.fail(f"a number is needed here, not {describe(x)}")
    if dtype is dtypes.bool_:
        return Value(e.Const(bool(x), dtypes.bool_))
    if dtype.is_float:
        return Value(e.Const(_rounded(x, dtype), dtype))
    wrapped = _fold_cast(e.Const(x, dtypes.int64), dtype)
    assert wrapped is not None
    return Value(wrapped)


def _saturated(x: float, dtype: dtypes.DType) -> int:
    held = whole(dtype)
    if x != x:
        return 0
    return held.low if x <= held.low else held.high if x >= held.high else int(x)


def as_bool(
    builder: Builder, x: Number, what: str = "a condition", *, integers: bool = True
) -> e.Expression:
    """A run-time condition; an integer holds unless it is 0, as in Python.

    Floats are refused, since C and Python disagree on NaN and -0.

    Parameters
    ----------
    builder : Builder
    x : number or Value
    what : str
        For the error.
    integers : bool
        Whether integers are taken; not where Python would give one of them.
    """
    if isinstance(x, bool):
        return e.Const(x, dtypes.bool_)
    if integers and isinstance(x, Value) and x.lanes == 1 and x.dtype.is_integer:
        return e.Compare("ne", x.expr, e.Const(0, x.dtype))
    if not isinstance(x, Value) or x.type is not dtypes.bool_:
        builder.fail(
            f"{what} must be a bool, not {describe(x)}", "compare it: write x != 0 or the like"
        )
    return x.expr


def constant_truth(builder: Builder, x: Any, what: str = "a condition") -> bool:
    """Whether something known at compile time is true, as in Python.

    Refuses what would always be: arrays, run-time complex numbers and words that nobody calls.

    Parameters
    ----------
    builder : Builder
    x : anything
    what : str
        For the error.
    """
    if isinstance(x, Complex | View | StructView | Struct) or word_of(x):
        hint = {Complex: "compare it: write x != 0", View: "write x is None, or compare elements"}
        builder.fail(
            f"{what} must be a bool, not {describe(x)}", hint.get(type(x), "call it: write (...)")
        )
    return bool(x)


def as_index(builder: Builder, x: Number) -> e.Expression:
    """An integer scalar in the kernel's index type."""
    if isinstance(x, Value) and x.lanes == 1 and x.dtype.is_integer:
        return as_type(builder, x, builder.index_type).expr
    if isinstance(x, int) and not isinstance(x, bool):
        return _literal(builder, x, builder.index_type)
    hint = "convert it: kl.i32(...)" if isinstance(x, Value) else ""
    builder.fail(f"an integer is needed here, not {describe(x)}", hint)
