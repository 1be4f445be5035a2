"""Keeps the negatives of floats where a compiler loses them.

Intel's OpenCL runtime for CPUs (2026.22.10) runs the work-items of a group in a loop between two
barriers, and forgets to keep a negated float, though no other value, for each of them across the
barrier: all then see the last one's. A negative by way of `fma` is kept.
"""

from __future__ import annotations

from dataclasses import replace

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Vector, scalar_of
from portable.lang.ir.walk import all_statements, map_block, map_expression, map_operands

__all__ = ["lower_negations"]


def lower_negations(kernel: Kernel) -> Kernel:
    """The kernel with negatives of floats written as ``fma(x, -1, -0.0)``, if it has barriers."""
    if not any(isinstance(x, s.Barrier) for x in all_statements(kernel.body)):
        return kernel
    body = map_block(kernel.body, lambda x: (map_operands(x, lambda y: map_expression(y, _kept)),))
    return replace(kernel, body=body)


def _kept(x: e.Expression) -> e.Expression:
    if not scalar_of(x.type).is_float:
        return x
    match x:
        case e.Unary(op="neg"):
            return _negative(x.x)
        case (
            e.Binary(op="mul", x=e.Const(value=-1), y=y)
            | e.Binary(op="mul", x=y, y=e.Const(value=-1))
        ):
            return _negative(y)
        case _:
            return x


def _negative(x: e.Expression) -> e.Expression:
    return e.Call("fma", (x, _like(x, -1.0), _like(x, -0.0)), x.type)


def _like(x: e.Expression, value: float) -> e.Expression:
    constant = e.Const(value, scalar_of(x.type))
    return e.Splat(constant, x.type) if isinstance(x.type, Vector) else constant
