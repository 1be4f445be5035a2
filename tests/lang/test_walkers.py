"""What a new statement or expression says of itself is enough, and what it leaves out is missed."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field

import pytest

from portable import dtypes as dt
from portable import sim
from portable.errors import KernelError, Location, UnsupportedError
from portable.lang.checks import check
from portable.lang.emit import generate
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.expressions import BINDS, BLOCK, READS, UPDATES, roles_of
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, Scope, ValueType
from portable.lang.ir.walks import (
    all_expressions,
    all_statements,
    map_block,
    map_expression,
    map_memory,
    map_operands,
)
from portable.lang.passes import reduced
from portable.lang.passes.semantics import Semantics
from portable.lang.tiles import lower
from portable_backends.simulator.backend import SimulatorDevice
from tests.support import irbuilder as ir
from tests.support.compilers import CUDA, HIP

OUT = ir.array("out", dt.int32)
FOUND = ir.var("found")


@dataclass(frozen=True, slots=True)
class Swap(s.Statement):
    """Puts a value in the place of an element, and binds what was there."""

    var: e.Variable = field(metadata=BINDS)
    array: Array = field(metadata=UPDATES)
    index: tuple[e.Expression, ...] = field(metadata=READS)
    value: e.Expression = field(metadata=READS)
    loc: Location
    whose: Scope = "work_item"

    def together(self) -> Scope:
        """As it was made."""
        return self.whose


@dataclass(frozen=True, slots=True)
class Twice(s.Statement):
    """Runs a block two times."""

    body: s.Block = field(metadata=BLOCK)
    loc: Location


@dataclass(frozen=True, slots=True)
class Silent(s.Statement):
    """Says nothing of what it reads."""

    value: e.Expression
    loc: Location


@dataclass(frozen=True, slots=True)
class Halved(e.Expression):
    """Half of an integer."""

    x: e.Expression

    @property
    def type(self) -> ValueType:
        """The operand's type."""
        return self.x.type


def swap(value: e.Expression, whose: Scope = "work_item") -> Swap:
    return Swap(FOUND, OUT, (ir.lid(),), value, ir.LOC, whose)


def kernel(*body: s.Statement) -> Kernel:
    return ir.kernel([OUT], body, workgroup=(4, 1, 1))


def test_walkers_go_by_what_a_statement_says() -> None:
    own = Twice((swap(ir.binary("floordiv", ir.lid(), 3)),), ir.LOC)
    made = kernel(own)
    assert list(all_statements(made.body)) == [own, own.body[0]]
    assert e.Const(3, dt.int32) in list(all_expressions(made.body))
    assert made.written == {OUT}
    assert Facts(made).bounds(FOUND).low == -(2**31)
    other = ir.array("other", dt.int32)
    (moved,) = map_block(own.body, lambda x: (map_memory(x, lambda _: other),))
    assert moved.written() == (other,)
    (doubled,) = map_block(own.body, lambda x: (map_operands(x, lambda y: ir.add(y, y)),))
    assert isinstance(doubled, Swap)
    assert doubled.value == ir.add(own.body[0].value, own.body[0].value)  # type: ignore[attr-defined]


def test_passes_change_what_is_inside() -> None:
    target = SimulatorDevice().capabilities
    made = kernel(Twice((swap(ir.binary("floordiv", Halved(ir.lid()), 4)),), ir.LOC))
    low = reduced(lower(made, target), target, Semantics())
    (inner,) = [x for x in all_statements(low.body) if isinstance(x, Swap)]
    assert inner.value == ir.binary("shr", Halved(ir.lid()), 2)


def test_uniformity_goes_by_what_a_statement_says() -> None:
    check(kernel(swap(ir.lid()), s.Barrier(ir.LOC)))
    inside = s.If(e.Compare("eq", FOUND, ir.const(0)), (s.Barrier(ir.LOC),), (), ir.LOC)
    with pytest.raises(KernelError, match="not provably uniform"):
        check(kernel(swap(ir.const(0)), inside))
    apart = s.If(e.Compare("eq", ir.lid(), ir.const(0)), (swap(ir.lid(), "workgroup"),), (), ir.LOC)
    with pytest.raises(KernelError, match="Swap may not be reached by the whole workgroup"):
        check(kernel(apart))
    with pytest.raises(TypeError, match="Twice"):
        check(kernel(Twice((s.Barrier(ir.LOC),), ir.LOC)))


def test_a_field_that_says_nothing_is_refused_by_its_name() -> None:
    silent = kernel(Silent(ir.lid(), ir.LOC))
    walkers = (
        lambda: list(all_expressions(silent.body)),
        lambda: map_block(silent.body, lambda x: (x,)),
        lambda: Facts(silent),
        lambda: check(silent),
        lambda: generate(silent, CUDA),
        lambda: sim.run(silent, (1, 1, 1), [[0]]),
        lambda: silent.written,
    )
    for walk in walkers:
        with pytest.raises(TypeError, match=r"Silent\.value does not say"):
            walk()


@pytest.mark.parametrize("target", [CUDA, HIP], ids=lambda x: x.dialect)
def test_what_is_not_printed_or_simulated_is_refused_by_its_name(target: object) -> None:
    cases = ((swap(ir.lid()), "Swap"), (Twice((), ir.LOC), "Twice"))
    for statement, name in cases:
        with pytest.raises(UnsupportedError, match=name):
            generate(kernel(statement), target)  # type: ignore[arg-type]
        with pytest.raises(UnsupportedError, match=name):
            sim.run(kernel(statement), (1, 1, 1), [[0]])
    halved = kernel(s.Store(OUT, (ir.lid(),), Halved(ir.lid()), ir.LOC))
    with pytest.raises(UnsupportedError, match="Halved"):
        generate(halved, target)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="Halved"):
        sim.run(halved, (1, 1, 1), [[0]])


def test_expressions_are_rebuilt_whatever_they_are() -> None:
    x = Halved(ir.add(ir.lid(), 1))
    found = map_expression(x, lambda y: ir.gid() if y == ir.lid() else y)
    assert found == Halved(ir.add(ir.gid(), 1))


def test_every_statement_says_what_its_fields_are() -> None:
    for kind in vars(s).values():
        if inspect.isclass(kind) and issubclass(kind, s.Statement) and kind is not s.Statement:
            roles_of(kind)
