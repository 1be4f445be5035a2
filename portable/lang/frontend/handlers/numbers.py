"""Element-wise functions, conversions, kinds of loops and compile-time arithmetic."""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import Any

from portable.dtypes import DType, bool_, int64, uint64
from portable.lang.frontend import arithmetic, complexes
from portable.lang.frontend import values as v
from portable.lang.frontend.builder import Builder, handles
from portable.lang.frontend.conversion import as_value, cast, unify
from portable.lang.frontend.handlers.collectives import linear_id
from portable.lang.frontend.handlers.memory import as_dtype, fragment_of
from portable.lang.frontend.structs import operator_of
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.elementwise import FUNCTIONS
from portable.lang.ir.types import vector_type

# What loops run over.


@handles("static_range", "range")
def _plain_range(
    builder: Builder, word: str, start: Any, stop: Any, step: Any, unroll: Any = 0
) -> v.Range:
    return _range(builder, start, stop, step, unroll, static=word == "static_range")


@handles("workgroup_range")
def _workgroup_range(builder: Builder, start: Any, stop: Any, step: Any, unroll: Any) -> v.Range:
    whole = _range(builder, start, stop, step, unroll)
    size = prod(builder.workgroup)
    if size == 1:
        return whole
    ahead = arithmetic.binary(builder, "mul", linear_id(builder), whole.step)
    first = arithmetic.binary(builder, "add", whole.start, ahead)
    return v.Range(first, whole.stop, arithmetic.binary(builder, "mul", whole.step, size), unroll)


def _range(
    builder: Builder, start: Any, stop: Any, step: Any, unroll: int = 0, *, static: bool = False
) -> v.Range:
    if stop is None:
        start, stop = 0, start
    for x in (start, stop, step):
        if not v.is_integer(x):
            builder.fail(f"range takes integers, not {v.describe(x)}")
    if isinstance(step, int) and step == 0:
        builder.fail("the step of a range cannot be zero")
    return v.Range(start, stop, step, unroll, static)


@handles("vector_range")
def _vector_range(
    builder: Builder, start: Any, stop: Any, lanes: Any, unroll: Any
) -> v.VectorRange:
    if not isinstance(lanes, int) or isinstance(lanes, bool) or lanes < 1:
        builder.fail(f"kl.vector_range takes a positive constant as lanes, not {v.describe(lanes)}")
    return v.VectorRange(_range(builder, start, stop, 1, unroll), lanes)


@handles("elements")
def _elements(builder: Builder, fragment: Any) -> v.Elements:
    return v.Elements(fragment_of(builder, fragment, "kl.elements"))


# Conditions that authors hold for certain.


@handles("check")
def _check(builder: Builder, condition: Any, message: Any) -> None:
    value = as_value(builder, condition)
    if value.type is not bool_:
        builder.fail(
            f"kl.check takes a bool, not {v.describe(condition)}", "compare it: write x != 0"
        )
    if not isinstance(message, str):
        builder.fail(f"the message of kl.check is a string, not {v.describe(message)}")
    if condition is not True:
        builder.emit(s.Check(value.expr, message, builder.location))


_OPERATORS = {x.word: x for x in arithmetic.OPERATORS if x.op not in ("pow", "matmul")}
_COMPARISONS = {x.word: x for x in arithmetic.COMPARISONS}
_LOGICAL: dict[str, e.BinaryOp] = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}


@handles(*FUNCTIONS)
def _function(builder: Builder, word: str, **numbers: Any) -> Any:
    return arithmetic.call(builder, word, *numbers.values())


@handles("minimum", "maximum")
def _extreme(builder: Builder, word: str, x: Any, y: Any) -> Any:
    return arithmetic.binary(builder, "min" if word == "minimum" else "max", x, y)


@handles(*_OPERATORS)
def _binary(builder: Builder, word: str, x: Any, y: Any) -> Any:
    known = _OPERATORS[word]
    method = operator_of(known.method, x, y)
    if method is not None:
        return builder.call(method[0], [method[1]])
    return arithmetic.binary(builder, known.op, x, y)


@handles(*_LOGICAL)
def _logical(builder: Builder, word: str, x: Any, y: Any) -> Any:
    for operand in (x, y):
        if not _is_bool(operand):
            builder.fail(f"kl.{word} takes bools, not {v.describe(operand)}", "compare it: x != 0")
    return arithmetic.binary(builder, _LOGICAL[word], x, y)


def _is_bool(x: Any) -> bool:
    return isinstance(x, bool) or (isinstance(x, v.Value) and x.dtype is bool_)


@handles(*_COMPARISONS)
def _compare(builder: Builder, word: str, x: Any, y: Any) -> Any:
    return arithmetic.compare(builder, _COMPARISONS[word].op, x, y)


@handles("bitwise_invert", "logical_not")
def _invert(builder: Builder, word: str, x: Any) -> Any:
    if word == "logical_not" and not _is_bool(x):
        builder.fail(f"kl.{word} takes bools, not {v.describe(x)}", "compare it: x != 0")
    return not x if isinstance(x, bool) else arithmetic.invert(builder, x)


handles("negative")(arithmetic.negate)
handles("where")(arithmetic.select)


@handles("positive")
def _positive(builder: Builder, x: Any) -> Any:
    return x


@handles("square")
def _square(builder: Builder, x: Any) -> Any:
    return arithmetic.power(builder, x, 2)


@handles("reciprocal")
def _reciprocal(builder: Builder, x: Any) -> Any:
    if isinstance(x, v.Complex):
        return complexes.call(builder, "reciprocal", x)
    return arithmetic.binary(builder, "div", 1.0, x)


@handles("round")
def _round(builder: Builder, x: Any) -> Any:
    whole = isinstance(x, int) or (isinstance(x, v.Value) and x.dtype.is_integer)
    return x if whole else arithmetic.call(builder, "rint", x)


@handles("sign")
def _sign(builder: Builder, x: Any) -> Any:
    if isinstance(x, v.Complex | complex):
        return complexes.call(builder, "sign", x)
    positive = arithmetic.compare(builder, "gt", x, 0)
    if isinstance(x, v.Value) and x.dtype.kind == "u":
        return arithmetic.select(builder, positive, 1, x)
    negative = arithmetic.compare(builder, "lt", x, 0)
    zero = arithmetic.compare(builder, "eq", x, 0)
    below = arithmetic.select(builder, negative, -1, arithmetic.select(builder, zero, 0, x))
    return arithmetic.select(builder, positive, 1, below)


@handles("logaddexp")
def _logaddexp(builder: Builder, x: Any, y: Any) -> Any:
    a, b = unify(builder, x, y)
    high = arithmetic.binary(builder, "max", a, b)
    low = arithmetic.binary(builder, "min", a, b)
    gap = arithmetic.binary(builder, "sub", low, high)
    tail = arithmetic.call(builder, "log1p", arithmetic.call(builder, "exp", gap))
    same = arithmetic.compare(builder, "eq", a, b)
    shift = arithmetic.select(builder, same, 0.6931471805599453, tail)
    return arithmetic.binary(builder, "add", high, shift)


@handles("dot")
def _dot(builder: Builder, x: Any, y: Any) -> Any:
    products = arithmetic.binary(builder, "mul", x, y)
    if not isinstance(products, v.Value) or products.lanes == 1:
        return products
    each = builder.let("products", products.expr)
    lanes = [e.Lane(each, k) for k in range(products.lanes)]
    first, *others = (v.Value(lane, products.weak, products.slots) for lane in lanes)
    return reduce(lambda x, y: arithmetic.binary(builder, "add", x, y), others, first)


@handles("clip")
def _clip(builder: Builder, x: Any, min: Any, max: Any) -> Any:
    low = x if min is None else arithmetic.binary(builder, "max", x, min)
    return low if max is None else arithmetic.binary(builder, "min", low, max)


@handles("real", "imag")
def _part(builder: Builder, word: str, x: Any) -> Any:
    if isinstance(x, v.Complex | complex | int | float):
        return x.real if word == "real" else x.imag
    return x if word == "real" else arithmetic.constant_like(x, 0)


@handles("conj")
def _conj(builder: Builder, x: Any) -> Any:
    if isinstance(x, v.Complex):
        return v.Complex(x.real, arithmetic.negate(builder, x.imag))
    return x.conjugate() if isinstance(x, complex) else x


@handles("complex")
def _complex(builder: Builder, real: Any, imag: Any) -> v.Complex:
    a, b = unify(builder, real, imag)
    if not a.dtype.is_float:
        builder.fail(f"kl.complex takes floating-point parts, not {v.describe(a)}")
    return v.Complex(a, b)


@handles("cast")
def _cast(builder: Builder, x: Any, dtype: Any) -> Any:
    return cast(builder, x, as_dtype(builder, dtype))


@handles("bitcast")
def _bitcast(builder: Builder, x: Any, dtype: Any) -> v.Value:
    value = as_value(builder, x)
    kind = as_dtype(builder, dtype)
    if bool_ in (value.dtype, kind) or value.dtype.bits != kind.bits or kind.register is not kind:
        builder.fail(
            f"kl.bitcast of {v.describe(value)} to {kind.short}",
            "both types have the same width, 32 or 64 bits",
        )
    return v.Value(e.Bitcast(value.expr, vector_type(kind, value.lanes)))


@handles("accumulator")
def _accumulator(builder: Builder, dtype: Any) -> DType:
    kind = as_dtype(builder, dtype)
    if kind.is_float or kind.is_complex:
        return kind.register
    return uint64 if kind.kind == "u" else int64


@handles("cdiv")
def _cdiv(builder: Builder, x: Any, y: Any) -> Any:
    above = arithmetic.binary(builder, "add", x, arithmetic.binary(builder, "sub", y, 1))
    return arithmetic.binary(builder, "floordiv", above, y)


@handles("static_assert")
def _static_assert(builder: Builder, condition: Any, message: Any) -> None:
    if not isinstance(condition, bool):
        builder.fail(f"kl.static_assert takes a compile-time bool, not {v.describe(condition)}")
    if not condition:
        builder.fail(
            f"static assertion failed: {message}" if message else "static assertion failed"
        )


@handles("print")
def _print(builder: Builder, pieces: tuple[Any, ...]) -> None:
    printed: list[e.Expression | str] = []
    for piece in pieces:
        printed += [" ", *_printed(builder, piece)] if printed else _printed(builder, piece)
    builder.emit(s.Print(tuple(printed), builder.location))


def _printed(builder: Builder, piece: Any) -> list[e.Expression | str]:
    """What is printed of a number, a constant, or a tuple or struct of them."""
    if isinstance(piece, v.Value):
        if piece.lanes > 1:
            builder.fail("kl.print takes scalars", "print the lanes one by one: v[0], v[1]")
        return [piece.expr]
    if isinstance(piece, v.Complex):
        return ["(", piece.real.expr, " + ", piece.imag.expr, "j)"]
    if not v.at_run_time(piece):
        return [str(v.plain(piece))]
    if v.items_in(piece) is None:
        builder.fail(f"kl.print takes numbers and constants, not {v.describe(piece)}")
    inner: list[e.Expression | str] = []
    for part, item in v.labelled(piece):
        name = f"{part[1:]}=" if part.startswith(".") else ""
        inner += [", " * bool(inner) + name, *_printed(builder, item)]
    return [piece.kind.__name__ if isinstance(piece, v.Struct) else "", "(", *inner, ")"]
