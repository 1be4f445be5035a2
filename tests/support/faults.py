"""Faults to plant in lowered kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.nodes import constant
from portable.lang.ir.walks import map_block, map_expression, map_operands

Change = Callable[[s.Statement], s.Block]


def planted(kernel: Kernel, change: Change) -> Kernel:
    """The kernel with every statement changed, some of them into others."""
    damaged = replace(kernel, body=map_block(kernel.body, change))
    assert damaged.body != kernel.body
    return damaged


def _at(name: str, array: str, change: Callable[[s.Instruction], s.Block]) -> Change:
    """Changes the instructions of a name, at places in an array if one is given."""

    def changed(x: s.Statement) -> s.Block:
        if not isinstance(x, s.Instruction) or x.name != name:
            return (x,)
        return change(x) if not array or x.addresses[0][0].name == array else (x,)

    return changed


def without(name: str, array: str = "") -> Change:
    """The instruction is left out."""
    return _at(name, array, lambda x: ())


def renamed(old: str, new: str) -> Change:
    """Another instruction in its place."""
    return _at(old, "", lambda x: (replace(x, name=new),))


def given(name: str, array: str, change: Callable[[e.Expression], e.Expression]) -> Change:
    """The instruction with another input."""
    return _at(name, array, lambda x: (replace(x, inputs=(change(x.inputs[0]),)),))


def one_slot_on(name: str, array: str) -> Change:
    """The instruction at the place of the next round."""

    def moved(x: e.Expression) -> e.Expression:
        if not isinstance(x, e.Binary) or x.op != "mod":
            return x
        return replace(x, x=e.Binary("add", x.x, constant(1, x.type)))

    return _at(name, array, lambda x: (map_operands(x, lambda y: map_expression(y, moved)),))
