"""Loops whose variable simply runs up or down to a bound that stays what it is."""

from __future__ import annotations

from dataclasses import replace

from portable.dtypes import DType
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes, walks
from portable.lang.ir import statements as s
from portable.lang.ir.facts import whole
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import scalar_of
from portable.lang.passes.bindings import Bindings


def lower_loops(kernel: Kernel, bindings: Bindings) -> Kernel:
    """The kernel with loops that compare with a fixed bound after adding a constant.

    A loop whose step is not a constant, or might carry its variable past the end of its type,
    counts its rounds instead.
    """
    loops = _Loops(kernel, bindings)
    return replace(kernel, body=walks.map_block(kernel.body, loops.statement))


class _Loops:
    def __init__(self, kernel: Kernel, bindings: Bindings) -> None:
        self._mutable = frozenset(kernel.variables)
        self._facts = bindings.facts
        self._bindings = bindings

    def statement(self, x: s.Statement) -> s.Block:
        """A statement and what it needs before it."""
        if not isinstance(x, s.For):
            return (x,)
        self._bindings.loc = x.loc
        if isinstance(x.step, e.Const) and self._ends(x, int(x.step.value)):
            made = replace(x, stop=self._fixed(x.stop, f"{x.var.name}_stop"))
        else:
            made = self._counted(x)
        return (*self._bindings.taken(), made)

    def _ends(self, x: s.For, step: int) -> bool:
        """Whether stepping past `stop` stays in the type's range."""
        if abs(step) == 1:
            return True
        ends, stop = whole(scalar_of(x.var.type)), self._facts.bounds(x.stop)
        return stop.high - 1 + step <= ends.high if step > 0 else stop.low + 1 + step >= ends.low

    def _fixed(self, x: e.Expression, name: str) -> e.Expression:
        """A bound as it was before the first round; the body may change variables in it."""
        if not any(part in self._mutable for part in walks.subexpressions(x)):
            return x
        return self._bindings.bind(x, name)

    def _counted(self, x: s.For) -> s.For:
        kind_of, kind = x.var.type, nodes.unsigned(x.var.type)
        assert isinstance(kind, DType)
        name = x.var.name
        start, stop, step = (
            self._bound(value, f"{name}_{word}")
            for value, word in ((x.start, "start"), (x.stop, "stop"), (x.step, "step"))
        )
        trips = self._bound(self._trips(start, stop, step), f"{name}_trips")
        trip = self._bindings.variable(f"{name}_trip", kind)
        by = e.Binary("mul", trip, nodes.reinterpret(step, kind))
        value = nodes.reinterpret(e.Binary("add", nodes.reinterpret(start, kind), by), kind_of)
        body = (s.Let(x.var, value, x.loc), *x.body)
        zero, one = nodes.constant(0, kind), nodes.constant(1, kind)
        return s.For(trip, zero, trips, one, body, x.loc, x.unroll)

    def _bound(self, x: e.Expression, name: str) -> e.Expression:
        """A value as it is now, to be used in every round."""
        return self._bindings.bind(x, name) if x in self._mutable else self._bindings.name(x, name)

    def _trips(self, start: e.Expression, stop: e.Expression, step: e.Expression) -> e.Expression:
        """How many rounds there are; none for a step of 0."""
        kind = nodes.unsigned(start.type)
        low, high, by = (nodes.reinterpret(x, kind) for x in (start, stop, step))
        bounds = self._facts.bounds(step)
        up, down = e.Compare("lt", start, stop), e.Compare("gt", start, stop)
        if bounds.low > 0:
            return _rounds(up, e.Binary("sub", high, low), by)
        negative = e.Unary("neg", by)
        if bounds.high < 0:
            return _rounds(down, e.Binary("sub", low, high), negative)
        rising = nodes.compare("gt", step, 0)
        some = e.Select(rising, up, e.Binary("and", down, nodes.compare("lt", step, 0)))
        gap = e.Select(rising, e.Binary("sub", high, low), e.Binary("sub", low, high))
        stride = e.Binary("max", e.Select(rising, by, negative), nodes.constant(1, kind))
        return _rounds(some, gap, stride)


def _rounds(some: e.Expression, gap: e.Expression, stride: e.Expression) -> e.Expression:
    """The strides that cover a gap, if there is one."""
    one = nodes.constant(1, gap.type)
    full = e.Binary("quot", e.Binary("sub", gap, one), stride)
    return e.Select(some, e.Binary("add", full, one), nodes.constant(0, gap.type))
