"""Complex numbers as pairs of real values, on which the language's own helper functions work."""

from __future__ import annotations

from typing import Any

from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import Number
from portable.lang.frontend.conversion import unify as unify_real
from portable.lang.frontend.values import Complex, Value
from portable.lang.ir import expressions as e


def unify(builder: Builder, *numbers: Number) -> tuple[Complex, ...]:
    """Numbers as complex pairs of one real type."""
    parts = [part for x in numbers for part in _parts(x)]
    values = iter(unify_real(builder, *parts))
    return tuple(Complex(real, imag) for real, imag in zip(values, values, strict=True))


def _parts(x: Number) -> tuple[Any, Any]:
    return (x.real, x.imag) if isinstance(x, Complex | complex) else (x, 0.0)


def as_complex(builder: Builder, x: Number) -> Complex:
    """One number as a pair."""
    return x if isinstance(x, Complex) else unify(builder, x)[0]


def binary(builder: Builder, op: e.BinaryOp, x: Number, y: Number) -> Complex:
    """``x op y`` for + - * /; a real operand stays one, so that no infinity meets its zero.

    Parameters
    ----------
    builder : Builder
    op : str
        As of `portable.lang.ir.expressions.Binary`.
    x, y : number or Value
    """
    from portable.lang.library.complex_functions import OPERATORS, REAL_LEFT, REAL_RIGHT

    if op not in OPERATORS:
        builder.fail(f"complex numbers take + - * / **, not {op}")
    a, b = _operand(builder, x), _operand(builder, y)
    if isinstance(a, Complex) and isinstance(b, Complex):
        function = OPERATORS[op]
    elif isinstance(a, Complex):
        function = REAL_RIGHT[op]
    elif op in REAL_LEFT:
        function = REAL_LEFT[op]
    else:
        function, a, b = REAL_RIGHT[op], b, a
    result: Complex = builder.inline(function, [a, b], {})
    return result


def _operand(builder: Builder, x: Number) -> Number:
    return as_complex(builder, x) if isinstance(x, complex) else x


def compare(builder: Builder, op: e.CompareOp, x: Number, y: Number) -> Value:
    """``==`` and ``!=``.

    Parameters
    ----------
    builder : Builder
    op : {"eq", "ne"}
    x, y : number or Value
    """
    if op not in ("eq", "ne"):
        builder.fail("complex numbers have no order", "compare x.real or kl.abs(x)")
    a, b = unify(builder, x, y)
    real = e.Compare(op, a.real.expr, b.real.expr)
    imag = e.Compare(op, a.imag.expr, b.imag.expr)
    return Value(e.Binary("and" if op == "eq" else "or", real, imag))


def call(builder: Builder, name: str, *numbers: Number) -> Any:
    """The functions that complex numbers have in the language."""
    from portable.lang.library.complex_functions import COMPLEX

    if name not in COMPLEX:
        builder.fail(f"kl.{name} takes real numbers, not complex ones", "take x.real or x.imag")
    first, *rest = numbers
    operands = [as_complex(builder, first), *(_operand(builder, x) for x in rest)]
    return builder.inline(COMPLEX[name], operands, {})
