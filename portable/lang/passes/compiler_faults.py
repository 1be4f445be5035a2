"""Rewrites what some compilers get wrong: constants, complements, negations and sines.

Intel's OpenCL runtime for CPUs (2026.22.10) runs the work-items of a group in a loop between two
barriers, and forgets to keep a negated float, though no other value, for each of them across the
barrier: all then see the last one's. LLVM also makes negations of products and quotients with -1,
which it may find out about when it has unrolled a loop, of differences from zero, and of the sign
of a negative constant. A product by way of ``fma(x, y, -0.0)``, which is the same, is kept.

NVIDIA's assembler loses the negation of a 32-bit integer that goes through two minima or maxima:
the emitter hides what it sees as a negation (`portable.lang.emit.dialect`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from portable.dtypes import DType, int32
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes, walks
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Vector, scalar_of

# Rounds constants itself, for compilers that do not find out what their own library gives.
#
# PoCL's library converts to integers and back on the way to a rounded float, and takes the float
# itself where that is too large. Compilers are free to make anything of such a conversion of a
# constant beyond the integers: PoCL 3.1 dropped the branch in which ``rint(2147483648.0f)`` stood.

_ROUNDED: Final[dict[str, Callable[[float], float]]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "rint": round,
    "trunc": math.trunc,
}


def round_constants(kernel: Kernel) -> Kernel:
    """The kernel with roundings of constants replaced by what they give."""
    return _with(kernel, _rounded)


def _rounded(x: e.Expression) -> e.Expression:
    match x:
        case e.Call(function=name, arguments=(e.Const(float(value)) as given,)) if name in _ROUNDED:
            held = float(given.type.numpy.type(value))
            if not math.isfinite(held):
                return x
            return e.Const(math.copysign(float(_ROUNDED[name](held)), held), given.type)
        case _:
            return x


# Keeps bitwise complements of integers out of a compiler that gets them wrong.
#
# Intel's OpenCL runtime for CPUs (2026.22.10) moves chains of scalar integer operations with a
# minimum or maximum in them into vector registers where what they work on comes from memory. For a
# complement it then compares a register with itself to get all bits set, has the answer put into a
# mask register (``vpcmpeqd %xmm0,%xmm0,%k0``), and goes on with what the vector register happened
# to hold. So ``min(~x[i], y[i])`` is wrong, and ``min(n[i] - 1 - x[i], y[i])`` too, which LLVM
# writes as ``n[i] + ~x[i]``. An exclusive or with a -1 that the compiler does not know of stays
# what it is.

_GROUPS: Final = e.WorkItem("num_groups", 0, int32)


def lower_complements(kernel: Kernel) -> Kernel:
    """The kernel with complements written as ``x ^ -1``, the -1 unknown, if it loads integers."""
    if not any(
        isinstance(x, s.Load | s.Atomic) and x.array.dtype.is_integer
        for x in walks.all_statements(kernel.body)
    ):
        return kernel
    return _with(kernel, _hidden)


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


# -- negations -------------------------------------------------------------------------------------


def keep_negations(kernel: Kernel) -> Kernel:
    """The kernel with no product that could turn out to be a negative, if it has barriers."""
    if not walks.holds(kernel.body, s.Barrier):
        return kernel
    return _with(kernel, partial(_kept, fastmath=kernel.options.fastmath))


def separate_sines(kernel: Kernel) -> Kernel:
    """The kernel with cosines of what its compiler does not know to be a sine's argument."""
    calls = {x.function for x in walks.all_expressions(kernel.body) if isinstance(x, e.Call)}
    return _with(kernel, _separated) if {"sin", "cos"} <= calls else kernel


def _separated(x: e.Expression) -> e.Expression:
    if isinstance(x, e.Call) and x.function == "cos":
        return replace(x, arguments=(_unknown(x.arguments[0]),))
    return x


def plain_negations(kernel: Kernel) -> Kernel:
    """The kernel with all that LLVM takes for a negative of an integer written as one."""
    return _with(kernel, _plain)


def _with(kernel: Kernel, change: Callable[[e.Expression], e.Expression]) -> Kernel:
    body = walks.map_values(kernel.body, partial(walks.map_expression, change=change))
    return replace(kernel, body=body)


def _kept(x: e.Expression, *, fastmath: bool) -> e.Expression:
    if not scalar_of(x.type).is_float:
        return x
    match x:
        case e.Unary(op="neg"):
            return _product(x.x, nodes.constant(-1.0, x.type))
        case e.Binary(op="mul") if _may_be_minus_one(x.x) and _may_be_minus_one(x.y):
            return _product(x.x, x.y)
        case e.Binary(op="div") if _may_be_minus_one(x.y):
            return replace(x, y=_unknown(x.y))
        case e.Binary(op="sub") if _is_no_minuend(x.x, fastmath=fastmath):
            return _product(_plain_product(x.y), nodes.constant(-1.0, x.type))
        case e.Binary(op="add"):
            return replace(x, x=_plain_product(x.x), y=_plain_product(x.y))
        case e.Binary(op="sub"):
            return replace(x, y=_plain_product(x.y))
        case e.Call(function="copysign"):
            return replace(x, arguments=(x.arguments[0], _unknown(x.arguments[1])))
        case _:
            return x


def _may_be_minus_one(x: e.Expression) -> bool:
    return nodes.constant_of(x) in (None, -1)


def _product(x: e.Expression, y: e.Expression) -> e.Expression:
    """A product that LLVM does not simplify, whatever it finds out about the factors."""
    return e.Call("fma", (x, y, nodes.constant(-0.0, x.type)), x.type)


def _plain_product(x: e.Expression) -> e.Expression:
    """A product as it was: in a sum its negative becomes a difference, and the two one `fma`."""
    if isinstance(x, e.Call) and x.function == "fma" and _is_minus_zero(x.arguments[2]):
        return e.Binary("mul", x.arguments[0], x.arguments[1])
    return x


def _is_minus_zero(x: e.Expression) -> bool:
    value = nodes.constant_of(x)
    return value == 0 and math.copysign(1, value) < 0


def _unknown(x: e.Expression) -> e.Expression:
    """A number times a one that the compiler does not know of."""
    one = e.Cast(e.Unary("neg", unknown_ones(int32)), scalar_of(x.type))
    return _product(x, nodes.splat(one, x.type))


def _plain(x: e.Expression) -> e.Expression:
    if not scalar_of(x.type).is_integer:
        return x
    negated = _negated(x)
    return x if negated is None else e.Unary("neg", negated)


def _negated(x: e.Expression) -> e.Expression | None:
    """What LLVM sees that an integer is the negative of."""
    match x:
        case e.Unary(op="neg"):
            return x.x
        case e.Binary(op="mul"):
            if nodes.constant_of(x.x) == _minus_one(x.type):
                return x.y
            return x.x if nodes.constant_of(x.y) == _minus_one(x.type) else None
        case e.Binary(op="sub") if _is_no_minuend(x.x):
            return x.y
        case e.Binary(op="add") if nodes.constant_of(x.y) == 1:
            return x.x.x if isinstance(x.x, e.Unary) and x.x.op == "invert" else None
        case _:
            return None


def _is_no_minuend(x: e.Expression, *, fastmath: bool = False) -> bool:
    """Whether a number less another one is its negative: of floats -0 is such, and 0 roughly."""
    whole = scalar_of(x.type).is_integer
    return nodes.constant_of(x) == 0 if whole or fastmath else _is_minus_zero(x)


def _minus_one(kind: DType | Vector) -> int:
    scalar = scalar_of(kind)
    return 2**scalar.bits - 1 if scalar.kind == "u" else -1
