"""Keeps bitwise complements of integers out of a compiler that gets them wrong.

Intel's OpenCL runtime for CPUs (2026.22.10) moves chains of scalar integer operations with a
minimum or maximum in them into vector registers where what they work on comes from memory. For a
complement it then compares a register with itself to get all bits set, has the answer put into a
mask register (``vpcmpeqd %xmm0,%xmm0,%k0``), and goes on with what the vector register happened to
hold. So ``min(~x[i], y[i])`` is wrong, and ``min(n[i] - 1 - x[i], y[i])`` too, which LLVM writes as
``n[i] + ~x[i]``. An exclusive or with a -1 that the compiler does not know of stays what it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from portable.dtypes import DType, int32
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.walk import all_statements, map_block, map_expression, map_operands

_GROUPS: Final = e.WorkItem("num_groups", 0, int32)


def lower_complements(kernel: Kernel) -> Kernel:
    """The kernel with complements written as ``x ^ -1``, the -1 unknown, if it loads integers."""
    if not any(_loads_integer(x) for x in all_statements(kernel.body)):
        return kernel
    body = map_block(
        kernel.body, lambda x: (map_operands(x, lambda y: map_expression(y, _hidden)),)
    )
    return replace(kernel, body=body)


def _loads_integer(x: s.Statement) -> bool:
    return isinstance(x, s.Load | s.Atomic) and x.array.dtype.is_integer


def _hidden(x: e.Expression) -> e.Expression:
    if not isinstance(x.type, DType) or not x.type.is_integer:
        return x
    match x:
        case e.Unary(op="invert"):
            return e.Binary("xor", x.x, unknown_ones(x.type))
        case (
            e.Binary(op="xor", x=e.Const() as ones, y=y)
            | e.Binary(op="xor", x=y, y=e.Const() as ones)
        ) if _is_minus_one(ones.value, x.type):
            return e.Binary("xor", y, unknown_ones(x.type))
        case e.Binary(op="add" | "sub") | e.Unary(op="neg"):
            return _hidden_in_sum(x, x.type)
        case _:
            return x


def _hidden_in_sum(x: e.Expression, dtype: DType) -> e.Expression:
    """A sum of -1, a negative term and others, all that becomes a complement in LLVM."""
    terms = _terms(x, negative=False)
    constant = sum(-t.value if minus else t.value for t, minus in terms if isinstance(t, e.Const))
    others = [(t, minus) for t, minus in terms if not isinstance(t, e.Const)]
    if not _is_minus_one(constant, dtype) or not any(minus for _, minus in others):
        return x
    total = unknown_ones(dtype)
    for term, minus in others:
        total = e.Binary("sub" if minus else "add", total, term)
    return total


def _terms(x: e.Expression, *, negative: bool) -> list[tuple[e.Expression, bool]]:
    """What a sum adds up, each with whether it is subtracted."""
    match x:
        case e.Binary(op="add" | "sub"):
            second = negative != (x.op == "sub")
            return _terms(x.x, negative=negative) + _terms(x.y, negative=second)
        case e.Unary(op="neg"):
            return _terms(x.x, negative=not negative)
        case _:
            return [(x, negative)]


def _is_minus_one(value: float, dtype: DType) -> bool:
    modulus: int = 2**dtype.bits
    return (int(value) + 1) % modulus == 0


def unknown_ones(dtype: DType) -> e.Expression:
    """-1, worked out from the number of workgroups so that the compiler does not know it."""
    return e.Unary("neg", e.Cast(e.Compare("ne", _GROUPS, e.Const(0, int32)), dtype))
