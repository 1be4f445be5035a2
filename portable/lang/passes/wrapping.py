"""Signed integers wrap: what might leave their range goes by way of unsigned ones, as all wrap."""

from __future__ import annotations

from dataclasses import replace

from portable.lang.ir import expressions as e
from portable.lang.ir import nodes, walks
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import scalar_of


def wrap_signed(kernel: Kernel, facts: Facts) -> Kernel:
    """The kernel for languages in which signed arithmetic that leaves its range means nothing."""
    wrapping = _Wrapping(facts)
    return replace(kernel, body=walks.map_values(kernel.body, wrapping.expression))


class _Wrapping:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def expression(self, x: e.Expression) -> e.Expression:
        """An expression of the same value, without signed arithmetic that may leave its range."""
        if self._may_wrap(x):
            return nodes.reinterpret(self._bits(x), x.type)
        return walks.map_children(x, self.expression)

    def _may_wrap(self, x: e.Expression) -> bool:
        match x:
            case e.Binary(op="add" | "sub" | "mul" | "shl") | e.Unary(op="neg"):
                signed = scalar_of(x.type).kind == "i"
                return signed and not self._facts.fits(x)
            case _:
                return False

    def _bits(self, x: e.Expression) -> e.Expression:
        """A signed expression's bits, as an unsigned one; sums in sums stay unsigned."""
        kind = nodes.unsigned(x.type)
        match x:
            case e.Const(value=value) | e.Splat(x=e.Const(value=value)):
                return nodes.constant(int(value) % 2 ** scalar_of(kind).bits, kind)
            case e.Binary(op="add" | "sub" | "mul" | "shl"):
                return e.Binary(x.op, self._bits(x.x), self._bits(x.y))
            case e.Unary(op="neg"):
                return e.Unary("neg", self._bits(x.x))
            case _:
                return nodes.reinterpret(self.expression(x), kind)
