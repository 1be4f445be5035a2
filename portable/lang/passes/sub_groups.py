"""Sub-group operations by shuffles, whose source is always a work-item of the sub-group.

Reductions go by halves: in whole sub-groups across (every work-item then has the result), in a
workgroup's last, smaller one downwards to its first work-item, which hands the result round.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

from portable.dtypes import bool_, int32, uint32
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes, walks
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, sub_group_id, sub_group_local_id
from portable.lang.passes.bindings import Bindings

_REDUCTIONS: Final[dict[str, e.BinaryOp]] = {
    "reduce_add": "add",
    "reduce_min": "min",
    "reduce_max": "max",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
    "any": "or",
    "all": "and",
}
_SOURCES: Final[dict[str, e.BinaryOp]] = {
    "shuffle_xor": "xor",
    "shuffle_up": "sub",
    "shuffle_down": "add",
}


def lower_sub_groups(kernel: Kernel, bindings: Bindings) -> Kernel:
    """The kernel with no sub-group operation but ``shuffle``, of numbers, from inside."""
    if not walks.holds(kernel.body, s.SubGroup):
        return kernel
    lowering = _SubGroups(kernel, bindings)
    return replace(kernel, body=walks.map_block(kernel.body, lowering.statement))


def active_items(kernel: Kernel) -> e.Expression:
    """How many work-items this one's sub-group has; the workgroup's last may have fewer."""
    size, items = kernel.sub_group_size, prod(kernel.workgroup)
    if items % size == 0:
        return e.Const(size, uint32)
    before = e.Binary("mul", sub_group_id(kernel, uint32), e.Const(size, uint32))
    left = e.Binary("sub", e.Const(items, uint32), before)
    return e.Binary("min", left, e.Const(size, uint32))


class _SubGroups:
    def __init__(self, kernel: Kernel, bindings: Bindings) -> None:
        self._size = kernel.sub_group_size
        self._full = prod(kernel.workgroup) % self._size == 0
        self._own = sub_group_local_id(kernel, uint32)
        self._active = active_items(kernel)
        self._bindings = bindings

    def statement(self, x: s.Statement) -> s.Block:
        """What a statement becomes."""
        if not isinstance(x, s.SubGroup):
            return (x,)
        if self._size == 1:
            return (s.Let(x.var, x.value, x.loc),)
        self._bindings.loc = x.loc
        if x.op not in _REDUCTIONS and x.op != "scan_add" and x.var.type is not bool_:
            shuffle = replace(x, op="shuffle", argument=self._source(x))
            return (*self._bindings.taken(), shuffle)
        kind = x.var.type
        value = nodes.cast(x.value, int32) if kind is bool_ else x.value
        result = self._result(x, value)
        outcome = nodes.compare("ne", result, 0) if kind is bool_ else result
        return (*self._bindings.taken(), s.Let(x.var, outcome, x.loc))

    def _result(self, x: s.SubGroup, value: e.Expression) -> e.Expression:
        if x.op in _REDUCTIONS:
            return self._reduced(_REDUCTIONS[x.op], value)
        if x.op == "scan_add":
            return self._scanned(value)
        return self._shuffled(value, self._source(x))

    def _source(self, x: s.SubGroup) -> e.Expression:
        """From whom a shuffle takes its value: this work-item, where the other is outside."""
        assert x.argument is not None
        source = nodes.cast(x.argument, uint32)
        if isinstance(source, e.Const) and x.op not in _SOURCES and self._full:
            return source if source.value < self._size else self._own
        if x.op in _SOURCES:
            source = e.Binary(_SOURCES[x.op], self._own, source)
        source = self._bindings.name(source, "source")
        return e.Select(e.Compare("lt", source, self._active), source, self._own)

    def _shuffled(self, value: e.Expression, source: e.Expression) -> e.Variable:
        var = self._bindings.variable("shuffled", value.type)
        self._bindings.add(s.SubGroup(var, "shuffle", value, source, self._bindings.loc))
        return var

    def _reduced(self, op: e.BinaryOp, value: e.Expression) -> e.Expression:
        total, step = self._bindings.name(value, "value"), self._size // 2
        while step:
            total = self._across(op, total, step) if self._full else self._down(op, total, step)
            step //= 2
        return total if self._full else self._shuffled(total, e.Const(0, uint32))

    def _across(self, op: e.BinaryOp, value: e.Expression, step: int) -> e.Expression:
        other = self._shuffled(value, e.Binary("xor", self._own, e.Const(step, uint32)))
        return self._bindings.bind(e.Binary(op, value, other), "value")

    def _down(self, op: e.BinaryOp, value: e.Expression, step: int) -> e.Expression:
        source = self._bindings.bind(e.Binary("add", self._own, e.Const(step, uint32)), "source")
        inside = self._bindings.bind(e.Compare("lt", source, self._active), "inside")
        return self._taken_in(op, value, source, inside)

    def _scanned(self, value: e.Expression) -> e.Expression:
        total, step = self._bindings.name(value, "value"), 1
        while step < self._size:
            by = e.Const(step, uint32)
            inside = self._bindings.bind(e.Compare("ge", self._own, by), "inside")
            total = self._taken_in("add", total, e.Binary("sub", self._own, by), inside)
            step *= 2
        return total

    def _taken_in(
        self, op: e.BinaryOp, value: e.Expression, source: e.Expression, inside: e.Expression
    ) -> e.Expression:
        """A value combined with that of another work-item, or alone where there is no such one."""
        other = self._shuffled(value, e.Select(inside, source, self._own))
        return self._bindings.bind(e.Select(inside, e.Binary(op, value, other), value), "value")
