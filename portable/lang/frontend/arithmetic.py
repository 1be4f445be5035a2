"""Typed expressions for Python's operators and the element-wise functions.

Operations on constants are done at once, in Python; the rest builds IR.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

import numpy as np

from portable.dtypes import bool_
from portable.lang.frontend import complexes, variables
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import (
    Number,
    as_bool,
    common_dtype,
    constant_truth,
    splat,
    unify,
)
from portable.lang.frontend.values import Complex, Value, View, describe, is_number, items_in, like
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes
from portable.lang.ir.elementwise import FUNCTIONS, Function
from portable.lang.ir.types import Vector
from portable.lang.words.word import word_of


class Operator(NamedTuple):
    """An operator by all its names.

    Attributes
    ----------
    node : type
        Of Python's syntax trees.
    op : str
        As of `portable.lang.ir.expressions.Binary`, or `Compare`.
    sign : str
        As Python writes it.
    method : str
        By which classes take part in it, without underscores.
    word : str
        Of the kernel language.
    """

    node: type[ast.AST]
    op: Any
    sign: str
    method: str
    word: str

    def of_constants(self, x: Any, y: Any) -> Any:
        """What Python makes of it."""
        return getattr(operator, f"__{self.method}__")(x, y)


OPERATORS: Final = (
    Operator(ast.Add, "add", "+", "add", "add"),
    Operator(ast.Sub, "sub", "-", "sub", "subtract"),
    Operator(ast.Mult, "mul", "*", "mul", "multiply"),
    Operator(ast.MatMult, "matmul", "@", "matmul", "matmul"),
    Operator(ast.Div, "div", "/", "truediv", "divide"),
    Operator(ast.FloorDiv, "floordiv", "//", "floordiv", "floor_divide"),
    Operator(ast.Mod, "mod", "%", "mod", "remainder"),
    Operator(ast.Pow, "pow", "**", "pow", "pow"),
    Operator(ast.BitAnd, "and", "&", "and", "bitwise_and"),
    Operator(ast.BitOr, "or", "|", "or", "bitwise_or"),
    Operator(ast.BitXor, "xor", "^", "xor", "bitwise_xor"),
    Operator(ast.LShift, "shl", "<<", "lshift", "bitwise_left_shift"),
    Operator(ast.RShift, "shr", ">>", "rshift", "bitwise_right_shift"),
)
COMPARISONS: Final = (
    Operator(ast.Eq, "eq", "==", "eq", "equal"),
    Operator(ast.NotEq, "ne", "!=", "ne", "not_equal"),
    Operator(ast.Lt, "lt", "<", "lt", "less"),
    Operator(ast.LtE, "le", "<=", "le", "less_equal"),
    Operator(ast.Gt, "gt", ">", "gt", "greater"),
    Operator(ast.GtE, "ge", ">=", "ge", "greater_equal"),
)
_BY_OP: Final = {x.op: x for x in (*OPERATORS, *COMPARISONS)}
_EXTREMES: Final[dict[str, Callable[[Any, Any], Any]]] = {"min": min, "max": max}
_BITWISE: Final = ("and", "or", "xor", "shl", "shr")


def binary(builder: Builder, op: e.BinaryOp, x: Number, y: Number) -> Any:
    """``x op y`` for constants, values, vectors and complex numbers.

    Parameters
    ----------
    builder : Builder
    op : str
        As of `portable.lang.ir.expressions.Binary`.
    x, y : number or Value
    """
    at_run_time = isinstance(x, Value | Complex) or isinstance(y, Value | Complex)
    if not at_run_time or not is_number(x) or not is_number(y):
        return _on_constants(builder, op, x, y)
    if isinstance(x, Complex | complex) or isinstance(y, Complex | complex):
        return complexes.binary(builder, op, x, y)
    left, right = unify(builder, x, y)
    _check_kind(builder, op, left, x, y)
    return Value.made_of(_simplified(builder, op, left.expr, right.expr), left, right)


def _on_constants(builder: Builder, op: str, x: Any, y: Any) -> Any:
    try:
        return (_EXTREMES.get(op) or _BY_OP[op].of_constants)(x, y)
    except (ArithmeticError, TypeError, ValueError) as error:
        sign = _sign(op)
        if isinstance(x, View) or isinstance(y, View):
            builder.fail(
                f"{describe(x)} {sign} {describe(y)}: arrays are worked on by element",
                "an element has an index for each dimension, such as x[i, j]",
            )
        for z in (x, y):
            if z is None or isinstance(z, str):
                builder.fail(f"{describe(x)} {sign} {describe(y)}: {describe(z)} is no number")
        builder.fail(f"{describe(x)} {sign} {describe(y)} is not possible: {error}")


def _sign(op: str) -> str:
    return _BY_OP[op].sign if op in _BY_OP else op


def _check_kind(builder: Builder, op: str, value: Value, x: Number, y: Number) -> None:
    dtype = value.dtype
    if op == "div" and not dtype.is_float:
        reason = "true division of integers has no float type here"
        hint = "write // for integers, or convert: kl.f32(x) / kl.f32(y)"
    elif op in _BITWISE and dtype.is_float:
        reason, hint = "bit operations take integers", "see kl.bitcast(x, kl.i32)"
    elif dtype is bool_ and op not in ("and", "or", "xor"):
        reason, hint = "bool takes only & | ^", "convert it first: kl.i32(...)"
    else:
        return
    builder.fail(f"{describe(x)} {_sign(op)} {describe(y)}: {reason}", hint)


def _simplified(builder: Builder, op: e.BinaryOp, x: e.Expression, y: e.Expression) -> e.Expression:
    """The operation, folded on integer constants and for neutral elements."""
    if isinstance(x.type, Vector) or not x.type.is_integer:
        return e.Binary(op, x, y)
    a = x.value if isinstance(x, e.Const) else None
    b = y.value if isinstance(y, e.Const) else None
    if (op == "add" and a == 0) or (op == "mul" and a == 1):
        return y
    if (op in ("add", "sub", "shl", "shr") and b == 0) or (op in ("mul", "floordiv") and b == 1):
        return x
    nonnegative = op in ("floordiv", "mod") and all(builder.bounds(v).low >= 0 for v in (x, y))
    node = e.Binary(op, x, y, nonnegative)
    bounds = builder.bounds(node)
    return e.Const(bounds.low, x.type) if bounds.low == bounds.high else node


def compare(builder: Builder, op: e.CompareOp, x: Any, y: Any) -> Any:
    """A comparison; objects known at compile time (dtypes, None, strings) compare as in Python.

    Parameters
    ----------
    builder : Builder
    op : str
        As of `portable.lang.ir.expressions.Compare`.
    x, y : anything
    """
    for one, other in ((x, y), (y, x)):
        if isinstance(one, View) and other is not None:
            builder.fail(f"{describe(x)} and {describe(y)}: arrays are compared by element")
        if word_of(one):
            builder.fail(f"{describe(x)} and {describe(y)} do not compare", "call it: write (...)")
    if not isinstance(x, Value | Complex) and not isinstance(y, Value | Complex):
        try:
            return _BY_OP[op].of_constants(x, y)
        except TypeError as error:
            builder.fail(f"{describe(x)} and {describe(y)} do not compare: {error}")
    if not is_number(x) or not is_number(y):
        builder.fail(f"{describe(x)} and {describe(y)} do not compare")
    if isinstance(x, Complex | complex) or isinstance(y, Complex | complex):
        return complexes.compare(builder, op, x, y)
    left, right = unify(builder, x, y)
    if left.dtype is bool_ and op not in ("eq", "ne"):
        builder.fail("bools have no order", "convert them first: kl.i32(...)")
    return Value(e.Compare(op, left.expr, right.expr))


def negate(builder: Builder, x: Number) -> Any:
    """``-x``."""
    if isinstance(x, Complex):
        return Complex(negate(builder, x.real), negate(builder, x.imag))
    if not isinstance(x, Value):
        return _on_one(builder, operator.neg, x)
    if x.dtype is bool_:
        builder.fail("a bool has no negative", "write 'not x', or convert it: kl.i32(x)")
    wraps = isinstance(x.expr, e.Const) and x.expr.value == -(2 ** (x.dtype.bits - 1))
    if isinstance(x.expr, e.Const) and x.dtype.kind != "u" and not wraps:
        return x.made_into(e.Const(-x.expr.value, x.dtype))
    return x.made_into(e.Unary("neg", x.expr))


def invert(builder: Builder, x: Number) -> Any:
    """``~x``: bitwise for integers, logical for bool."""
    if not isinstance(x, Value):
        return _on_one(builder, operator.invert, x)
    if x.dtype.is_float:
        builder.fail(f"~ takes integers and bools, not {describe(x)}")
    return x.made_into(e.Unary("not" if x.dtype is bool_ else "invert", x.expr))


def logical_not(builder: Builder, x: Any) -> Any:
    """``not x`` of a scalar bool."""
    if not isinstance(x, Value):
        return not constant_truth(builder, x, "the operand of 'not'")
    return Value(e.Unary("not", as_bool(builder, x, "the operand of 'not'")))


def _on_one(builder: Builder, function: Callable[[Any], Any], x: Any) -> Any:
    try:
        return function(x)
    except (ArithmeticError, TypeError, ValueError) as error:
        by_element = isinstance(x, View)
        builder.fail(f"{describe(x)}: {'arrays are worked on by element' if by_element else error}")


def select(builder: Builder, condition: Any, x: Any, y: Any) -> Any:
    """`x` where `condition`, else `y`, both evaluated.

    Parameters
    ----------
    builder : Builder
    condition : bool or Value
    x, y : number, Value, or tuples and structs of them
    """
    if isinstance(condition, bool):
        return x if condition else y
    if not isinstance(condition, Value) or condition.dtype is not bool_:
        builder.fail(f"a bool is needed to select by, not {describe(condition)}")
    if items_in(x) is not None or items_in(y) is not None:
        return _select_items(builder, condition, x, y)
    if not is_number(x) and variables.same(x, y):
        return x
    if isinstance(x, Complex | complex) or isinstance(y, Complex | complex):
        a, b = complexes.unify(builder, x, y)
        return Complex(
            select(builder, condition, a.real, b.real), select(builder, condition, a.imag, b.imag)
        )
    left, right = unify(builder, x, y)
    builder.meet(condition, left)
    if condition.lanes > 1 and left.lanes not in (1, condition.lanes):
        builder.fail(f"a {describe(condition)} cannot select between {describe(left)}s")
    if condition.lanes > left.lanes:
        left, right = (splat(v, condition.lanes) for v in (left, right))
    return Value.made_of(e.Select(condition.expr, left.expr, right.expr), left, right)


def _select_items(builder: Builder, condition: Value, x: Any, y: Any) -> Any:
    if not variables.alike(x, y):
        builder.fail(f"nothing holds {describe(x)} or {describe(y)}")
    chosen = Value(builder.let("chosen", condition.expr))
    pairs = zip(items_in(x) or (), items_in(y) or (), strict=True)
    return like(x, (select(builder, chosen, one, other) for one, other in pairs))


def power(builder: Builder, x: Number, y: Number) -> Any:
    """``x ** y``: by multiplication for small constant integers, else the function ``pow``.

    Parameters
    ----------
    builder : Builder
    x, y : number or Value
    """
    if not isinstance(x, Value | Complex) and not isinstance(y, Value | Complex):
        return _on_constants(builder, "pow", x, y)
    if isinstance(y, int) and not isinstance(y, bool) and 0 <= y <= 64:
        return _multiplied(builder, x, y)
    if isinstance(x, Complex) or isinstance(y, Complex):
        return complexes.call(builder, "pow", x, y)
    dtype, _ = common_dtype(builder, x, y)
    if not dtype.is_float:
        builder.fail(
            f"{describe(x)} ** {describe(y)}: integer powers take a constant exponent of 0 to 64",
            "convert to float, or multiply in a loop",
        )
    return call(builder, "pow", x, y)


def _multiplied(builder: Builder, x: Number, n: int) -> Any:
    if n == 0:
        return constant_like(x, 1)
    result = None
    while n:
        if n & 1:
            result = x if result is None else binary(builder, "mul", result, x)
        n >>= 1
        if n:
            x = _square(builder, x)
    return result


def _square(builder: Builder, x: Number) -> Any:
    if isinstance(x, Complex):
        return complexes.call(builder, "square", x)
    square = binary(builder, "mul", x, x)
    return square.made_into(builder.let("square", square.expr))


def constant_like(x: Value | Complex, number: int) -> Any:
    """A number in the type of `x`."""
    if isinstance(x, Complex):
        return Complex(constant_like(x.real, number), constant_like(x.imag, 0))
    return x.made_into(nodes.constant(number, x.type))


def call(builder: Builder, name: str, *numbers: Number) -> Any:
    """An element-wise function of `FUNCTIONS`."""
    function = FUNCTIONS[name]
    for x in numbers:
        if not is_number(x):
            builder.fail(f"kl.{name} takes numbers, not {describe(x)}")
    if not any(isinstance(x, Value | Complex) for x in numbers):
        return _constant_call(builder, function, numbers)
    if any(isinstance(x, Complex | complex) for x in numbers):
        return complexes.call(builder, name, *numbers)
    values = unify(builder, *numbers)
    _check_function(builder, function, values[0])
    kind, given = values[0].type, tuple(x.expr for x in values)
    if function.result == "bool":
        return Value(e.Call(name, given, nodes.like(kind, bool_)))
    return Value.made_of(e.Call(name, given, kind), *values)


def _check_function(builder: Builder, function: Function, x: Value) -> None:
    kind = x.dtype.kind
    if kind not in function.kinds:
        wanted = "floating-point" if function.kinds == "f" else "integer"
        hint = f"convert it: kl.{function.name}(kl.f32(x))" if function.kinds == "f" else ""
        builder.fail(f"kl.{function.name} takes {wanted} numbers, not {describe(x)}", hint)


def _constant_call(builder: Builder, function: Function, numbers: tuple[Any, ...]) -> Any:
    """A function of Python numbers: a Python number again, worked out in double precision."""
    exact = "f" not in function.kinds or (
        "i" in function.kinds and all(isinstance(x, int) for x in numbers)
    )
    is_complex = any(isinstance(x, complex) for x in numbers)
    if is_complex and function.complex_ulp is None:
        builder.fail(f"kl.{function.name} takes real numbers, not complex ones")
    kind = np.complex128 if is_complex else np.int64 if exact else np.float64
    arrays = [np.asarray(x, kind) for x in numbers]
    with np.errstate(all="ignore"):
        return cast(Any, function.numpy(*arrays)).item()
