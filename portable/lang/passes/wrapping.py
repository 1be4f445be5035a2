"""Signed integers wrap: what might leave their range goes by way of unsigned ones, as all wrap."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from portable.dtypes import DType
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.make import reinterpret, unsigned
from portable.lang.ir.types import ValueType, Vector, scalar_of
from portable.lang.ir.walk import map_block, map_children, map_expression, map_operands

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
    body = map_block(
        kernel.body, lambda x: (map_operands(x, lambda y: map_expression(y, _rounded)),)
    )
    return replace(kernel, body=body)


def _rounded(x: e.Expression) -> e.Expression:
    match x:
        case e.Call(function=name, arguments=(e.Const(float(value)) as given,)) if name in _ROUNDED:
            held = float(given.type.numpy.type(value))
            if not math.isfinite(held):
                return x
            return e.Const(math.copysign(float(_ROUNDED[name](held)), held), given.type)
        case _:
            return x


# Signed integers wrap: what might leave their range goes by way of unsigned ones, as all wrap.


def wrap_signed(kernel: Kernel, facts: Facts) -> Kernel:
    """The kernel for languages in which signed arithmetic that leaves its range means nothing."""
    wrapping = _Wrapping(facts)

    def change(x: s.Statement) -> s.Block:
        return (map_operands(x, wrapping.expression),)

    return replace(kernel, body=map_block(kernel.body, change))


class _Wrapping:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def expression(self, x: e.Expression) -> e.Expression:
        """An expression of the same value, without signed arithmetic that may leave its range."""
        if self._may_wrap(x):
            return reinterpret(self._bits(x), x.type)
        return map_children(x, self.expression)

    def _may_wrap(self, x: e.Expression) -> bool:
        match x:
            case e.Binary(op="add" | "sub" | "mul" | "shl") | e.Unary(op="neg"):
                signed = scalar_of(x.type).kind == "i"
                return signed and not self._facts.fits(x)
            case _:
                return False

    def _bits(self, x: e.Expression) -> e.Expression:
        """A signed expression's bits, as an unsigned one; sums in sums stay unsigned."""
        kind = unsigned(x.type)
        match x:
            case e.Const():
                return _bits_of(int(x.value), kind)
            case e.Splat(x=e.Const() as x):
                assert isinstance(kind, Vector)
                return e.Splat(_bits_of(int(x.value), kind.dtype), kind)
            case e.Binary(op="add" | "sub" | "mul" | "shl"):
                return e.Binary(x.op, self._bits(x.x), self._bits(x.y))
            case e.Unary(op="neg"):
                return e.Unary("neg", self._bits(x.x))
            case _:
                return reinterpret(self.expression(x), kind)


def _bits_of(value: int, kind: ValueType) -> e.Const:
    assert isinstance(kind, DType)
    return e.Const(value % 2**kind.bits, kind)
