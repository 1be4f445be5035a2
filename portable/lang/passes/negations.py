"""Writes negatives in ways that compilers do not lose.

Intel's OpenCL runtime for CPUs (2026.22.10) runs the work-items of a group in a loop between two
barriers, and forgets to keep a negated float, though no other value, for each of them across the
barrier: all then see the last one's. LLVM also makes negations of products and quotients with -1,
of differences from zero, and of the sign of a negative constant. A negative by way of `fma` is
kept.

NVIDIA's assembler loses the negation of a 32-bit integer that goes through two minima or maxima:
the emitter hides what it sees as a negation (`portable.lang.emit.around`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from portable.dtypes import DType, int32
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Vector, scalar_of
from portable.lang.ir.walk import all_statements, map_block, map_expression, map_operands
from portable.lang.passes.complements import unknown_ones

__all__ = ["keep_negations", "plain_negations"]


def keep_negations(kernel: Kernel) -> Kernel:
    """The kernel with negatives of floats written as ``fma(x, -1, -0.0)``, if it has barriers."""
    if not any(isinstance(x, s.Barrier) for x in all_statements(kernel.body)):
        return kernel
    return _with(kernel, _kept)


def plain_negations(kernel: Kernel) -> Kernel:
    """The kernel with all that LLVM takes for a negative of an integer written as one."""
    return _with(kernel, _plain)


def _with(kernel: Kernel, change: Callable[[e.Expression], e.Expression]) -> Kernel:
    body = map_block(kernel.body, lambda x: (map_operands(x, lambda y: map_expression(y, change)),))
    return replace(kernel, body=body)


def _kept(x: e.Expression) -> e.Expression:
    if not scalar_of(x.type).is_float:
        return x
    if isinstance(x, e.Call):
        return _with_hidden_sign(x) if _takes_minus_sign(x) else x
    negated = _negated(x)
    return x if negated is None else _negative(negated)


def _plain(x: e.Expression) -> e.Expression:
    if not scalar_of(x.type).is_integer:
        return x
    negated = _negated(x)
    return x if negated is None else e.Unary("neg", negated)


def _negated(x: e.Expression) -> e.Expression | None:
    """What LLVM sees that an expression is the negative of."""
    match x:
        case e.Unary(op="neg"):
            return x.x
        case e.Binary(op="mul"):
            if _constant(x.x) == _minus_one(x.type):
                return x.y
            return x.x if _constant(x.y) == _minus_one(x.type) else None
        case e.Binary(op="div") if _constant(x.y) == -1:
            return x.x
        case e.Binary(op="sub") if _is_no_minuend(x.x):
            return x.y
        case e.Binary(op="add") if _constant(x.y) == 1:
            return x.x.x if isinstance(x.x, e.Unary) and x.x.op == "invert" else None
        case _:
            return None


def _is_no_minuend(x: e.Expression) -> bool:
    """Whether a number less another one is its negative: of floats only -0 is such."""
    value = _constant(x)
    whole = scalar_of(x.type).is_integer
    return value == 0 and (whole or math.copysign(1, value) < 0)


def _minus_one(kind: DType | Vector) -> int:
    scalar = scalar_of(kind)
    return 2**scalar.bits - 1 if scalar.kind == "u" else -1


def _takes_minus_sign(x: e.Call) -> bool:
    sign = _constant(x.arguments[1]) if x.function == "copysign" else None
    return sign is not None and sign < 0


def _with_hidden_sign(x: e.Call) -> e.Expression:
    sign = e.Cast(unknown_ones(int32), scalar_of(x.type))
    spread = e.Splat(sign, x.type) if isinstance(x.type, Vector) else sign
    return e.Call(x.function, (x.arguments[0], spread), x.type)


def _constant(x: e.Expression) -> float | None:
    """The number that an expression is, for vectors in every lane."""
    match x:
        case e.Const(value=value):
            return value
        case e.Splat():
            return _constant(x.x)
        case e.MakeVector(elements=elements):
            found = {_constant(lane) for lane in elements}
            return found.pop() if len(found) == 1 else None
        case _:
            return None


def _negative(x: e.Expression) -> e.Expression:
    return e.Call("fma", (x, _like(x, -1.0), _like(x, -0.0)), x.type)


def _like(x: e.Expression, value: float) -> e.Expression:
    constant = e.Const(value, scalar_of(x.type))
    return e.Splat(constant, x.type) if isinstance(x.type, Vector) else constant
