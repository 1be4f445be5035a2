"""Complex numbers as pairs of real values.

Products and quotients are the textbook formulas (the quotient scaled by Smith's method, R. L.
Smith, "Algorithm 116: Complex division", CACM 5, 1962, so that it does not overflow early).
"""

from __future__ import annotations

from typing import Any

from portable.dtypes import DType, float32
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import Number, as_type, common_dtype
from portable.lang.frontend.values import Complex, Value, describe
from portable.lang.ir import expressions as e

__all__ = ["binary", "call", "compare", "negate", "power", "unify"]


def unify(builder: Builder, *numbers: Number) -> tuple[Complex, ...]:
    """Numbers as complex pairs of one real type."""
    parts: list[Any] = []
    for x in numbers:
        parts += (
            [x.real, x.imag]
            if isinstance(x, Complex)
            else [x.real]
            if isinstance(x, complex)
            else [x]
        )
    dtype, _ = common_dtype(builder, *parts)
    real = dtype if dtype.is_float else float32
    return tuple(_pair(builder, x, real) for x in numbers)


def _pair(builder: Builder, x: Number, dtype: DType) -> Complex:
    if isinstance(x, Complex):
        return Complex(as_type(builder, x.real, dtype), as_type(builder, x.imag, dtype))
    if isinstance(x, complex):
        return Complex(as_type(builder, x.real, dtype), as_type(builder, x.imag, dtype))
    return Complex(as_type(builder, x, dtype), Value(e.Const(0.0, dtype)))


def _named(builder: Builder, x: Value) -> Value:
    return Value(builder.let("part", x.expr))


def _op(op: e.BinaryOp, x: Value, y: Value) -> Value:
    return Value(e.Binary(op, x.expr, y.expr))


def binary(builder: Builder, op: e.BinaryOp, x: Number, y: Number) -> Complex:
    """``x op y`` for + - * /."""
    a, b = unify(builder, x, y)
    if op in ("add", "sub"):
        return Complex(_op(op, a.real, b.real), _op(op, a.imag, b.imag))
    a = Complex(_named(builder, a.real), _named(builder, a.imag))
    b = Complex(_named(builder, b.real), _named(builder, b.imag))
    if op == "mul":
        return _product(a, b)
    if op == "div":
        return _quotient(builder, a, b)
    builder.fail(f"complex numbers take + - * / **, not {op}")


def _product(a: Complex, b: Complex) -> Complex:
    real = _op("sub", _op("mul", a.real, b.real), _op("mul", a.imag, b.imag))
    imag = _op("add", _op("mul", a.real, b.imag), _op("mul", a.imag, b.real))
    return Complex(real, imag)


def _quotient(builder: Builder, a: Complex, b: Complex) -> Complex:
    """Smith's: divide by the larger component of the divisor first."""
    kind = b.real.type
    big_real = e.Compare(
        "ge", e.Call("abs", (b.real.expr,), kind), e.Call("abs", (b.imag.expr,), kind)
    )
    wide = builder.let("wide", big_real)

    def pick(x: Value, y: Value) -> Value:
        return _named(builder, Value(e.Select(wide, x.expr, y.expr)))

    large, small = pick(b.real, b.imag), pick(b.imag, b.real)
    ratio = _named(builder, _op("div", small, large))
    scale = _named(builder, _op("add", large, _op("mul", small, ratio)))
    first, second = pick(a.real, a.imag), pick(a.imag, a.real)
    real = _op("div", _op("add", first, _op("mul", second, ratio)), scale)
    cross = pick(
        _op("sub", a.imag, _op("mul", a.real, ratio)), _op("sub", _op("mul", a.imag, ratio), a.real)
    )
    return Complex(real, _op("div", cross, scale))


def negate(builder: Builder, x: Complex) -> Complex:
    """``-x``."""
    return Complex(Value(e.Unary("neg", x.real.expr)), Value(e.Unary("neg", x.imag.expr)))


def compare(builder: Builder, op: e.CompareOp, x: Number, y: Number) -> Value:
    """``==`` and ``!=``."""
    if op not in ("eq", "ne"):
        builder.fail("complex numbers have no order", "compare x.real or kl.abs(x)")
    a, b = unify(builder, x, y)
    real = e.Compare(op, a.real.expr, b.real.expr)
    imag = e.Compare(op, a.imag.expr, b.imag.expr)
    return Value(e.Binary("and" if op == "eq" else "or", real, imag))


def power(builder: Builder, x: Number, y: Number) -> Complex:
    """Refused for run-time exponents; constants up to 64 are multiplied out by the caller."""
    builder.fail(
        f"{describe(x)} ** {describe(y)}: complex powers take a constant exponent of 0 to 64",
        "write it with kl.exp and kl.log of the parts",
    )


def call(builder: Builder, name: str, *numbers: Number) -> Any:
    """The functions that a complex number has in the language."""
    (z,) = unify(builder, *numbers) if len(numbers) == 1 else (None,)
    if z is None:
        builder.fail(f"kl.{name} takes real numbers", "take x.real or x.imag")
    if name == "abs":
        kind = z.real.type
        return Value(e.Call("hypot", (z.real.expr, z.imag.expr), kind))
    if name in ("isnan", "isinf"):
        return _either(name, z, "or")
    if name == "isfinite":
        return _either(name, z, "and")
    if name == "exp":
        return _exp(builder, z)
    builder.fail(f"kl.{name} takes real numbers, not complex ones", "write it with real parts")


def _either(name: str, z: Complex, op: e.BinaryOp) -> Value:
    from portable.dtypes import bool_

    parts = [e.Call(name, (v.expr,), bool_) for v in (z.real, z.imag)]
    return Value(e.Binary(op, parts[0], parts[1]))


def _exp(builder: Builder, z: Complex) -> Complex:
    kind = z.real.type
    size = Value(builder.let("size", e.Call("exp", (z.real.expr,), kind)))
    angle = builder.let("angle", z.imag.expr)
    cosine, sine = Value(e.Call("cos", (angle,), kind)), Value(e.Call("sin", (angle,), kind))
    return Complex(_op("mul", size, cosine), _op("mul", size, sine))
