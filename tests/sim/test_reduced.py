"""Kernels in the operators of other languages mean what they meant: the simulator runs both."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable import sim
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Vector
from portable.lang.ir.walks import all_expressions, all_statements
from portable.lang.passes import reduced
from portable.lang.passes.semantics import Semantics
from portable_backends.simulator.backend import SimulatorDevice
from tests.emit.operators import OPERATIONS, SPECIALS, Operation, operation_kernel
from tests.support import irbuilder as ir

_CAPABILITIES = SimulatorDevice().capabilities
_POOR = Semantics(flat_sub_groups=True)
_RICH = Semantics(signed_wraps=True, saturating=frozenset({"f32.i32"}))
_DIVISORS = (1, 2, 3, 8, 10, 2**30, 0, -1, -2, -3, -8, -(2**31))
_INTEGERS = (dt.int32, dt.uint32, dt.int64, dt.uint64)


def _reduced(kernel: Kernel, semantics: Semantics = _POOR) -> Kernel:
    """For a poor language; what is left has no operator that such a language lacks."""
    made = reduced(kernel, _CAPABILITIES, semantics)
    for x in all_expressions(made.body):
        assert not (isinstance(x, e.Binary) and x.op in ("floordiv", "mod"))
        assert not (isinstance(x, e.WorkItem) and "sub_group" in x.word)
    for statement in all_statements(made.body):
        assert not (isinstance(statement, s.SubGroup) and statement.op != "shuffle")
        assert not (isinstance(statement, s.For) and not isinstance(statement.step, e.Const))
    return made


def _agree(kernel: Kernel, groups: int, *arguments: Any, semantics: Semantics = _POOR) -> None:
    found = []
    for one in (kernel, _reduced(kernel, semantics)):
        copies = [np.array(x) for x in arguments]
        sim.run(one, (groups, 1, 1), copies)
        found.append(copies)
    for plain, lowered in zip(*found, strict=True):
        assert np.array_equal(plain, lowered, equal_nan=plain.dtype.kind == "f")
        if plain.dtype.kind == "f":
            assert (np.signbit(plain) == np.signbit(lowered))[~np.isnan(plain)].all()


def _grid(kind: dt.DType, arity: int) -> list[np.ndarray[Any, Any]]:
    rows = list(itertools.product(SPECIALS[kind.short], repeat=min(arity, 2)))
    columns = [np.array(c, kind.numpy) for c in zip(*rows, strict=True)]
    return [*columns, columns[0][::-1].copy()][:arity]


@pytest.mark.parametrize("semantics", [_POOR, _RICH], ids=["poor", "rich"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_every_operation(lanes: int, semantics: Semantics) -> None:
    for operation in OPERATIONS:
        operands = _grid(operation.kind, operation.arity)
        count = -(-operands[0].size // 64) * 64
        kernel = operation_kernel(operation, lanes, workgroup=64 // lanes)
        result = operation.make(*[ir.var("x", operation.kind)] * operation.arity).type
        assert isinstance(result, dt.DType)
        filled = [np.resize(x, count) for x in operands]
        _agree(kernel, count // 64, *filled, np.zeros(count, result.numpy), semantics=semantics)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("op", ["floordiv", "mod", "shl", "shr"])
def test_constants_on_the_right(op: Any, lanes: int) -> None:
    for kind in _INTEGERS:
        x = np.resize(np.array(SPECIALS[kind.short], kind.numpy), 16)
        for number in _DIVISORS:
            if kind.kind == "u" and number < 0:
                continue
            constant: e.Expression = e.Const(number, kind)
            if lanes > 1:
                constant = e.Splat(constant, Vector(kind, lanes))
            make = lambda y, c=constant: e.Binary(op, y, c)  # noqa: E731
            operation = Operation(op, kind, 1, make, np.abs)
            _agree(
                operation_kernel(operation, lanes, workgroup=16 // lanes), 1, x, np.zeros_like(x)
            )


@pytest.mark.parametrize("low", [-1, 0, 1])
@pytest.mark.parametrize("op", ["floordiv", "mod"])
def test_what_is_known_of_operands(op: Any, low: int) -> None:
    """Divisors from -1, 0 or 1 up and dividends of both signs, by the local index."""
    for first in (-3, 0):
        out = ir.array("out", dt.int32)
        x, y = ir.add(ir.lid(), first), ir.add(ir.lid(1), low)
        at = ir.add(ir.mul(ir.lid(1), 6), ir.lid())
        body = [s.Store(out, (at,), e.Binary(op, x, y), ir.LOC)]
        _agree(ir.kernel([out], body, workgroup=(6, 4, 1)), 1, np.zeros(24, np.int32))


@pytest.mark.parametrize("kind", [dt.int32, dt.uint32, dt.int64], ids=str)
@pytest.mark.parametrize("constant", [True, False])
def test_loops(kind: dt.DType, constant: bool) -> None:
    """The bounds are those at the start, whatever the body does to them."""
    most = int(np.iinfo(kind.numpy).max)
    out, total = ir.array("out", kind), ir.var("total", kind)
    bounds = [ir.var(name, kind) for name in ("start", "stop", "step")]
    variables = [total, *(ir.var(f"{x.name}_now", kind) for x in bounds)]
    at = ir.var("at", kind)
    for start, stop, step in [
        (0, 10, 1), (0, 10, 3), (10, 0, -4), (5, 5, 1), (5, 0, 2), (0, 5, 0),
        (most - 5, most, 3), (-7, 8, 4), (8, -7, -1),
    ]:  # fmt: skip
        if (kind.kind == "u" and min(start, stop, step) < 0) or (constant and step == 0):
            continue
        changes = [s.Assign(v, ir.add(v, 1), ir.LOC) for v in variables[1:]]
        step_now = e.Const(step, kind) if constant else variables[3]
        body = [
            s.Assign(total, e.Const(0, kind), ir.LOC),
            *(s.Assign(v, x, ir.LOC) for v, x in zip(variables[1:], bounds, strict=True)),
            s.For(at, variables[1], variables[2], step_now,
                  (s.Assign(total, ir.add(ir.mul(total, 3), at), ir.LOC), *changes), ir.LOC),
            s.Store(out, (ir.const(0),), total, ir.LOC),
        ]  # fmt: skip
        kernel = ir.kernel([out, *bounds], body, variables=variables)
        _agree(kernel, 1, np.zeros(1, kind.numpy), start, stop, step)


_SUB_GROUP_OPS = [
    ("shuffle", 3), ("shuffle", 9), ("shuffle", -1), ("shuffle_xor", 5), ("shuffle_up", 2),
    ("shuffle_down", 3), ("broadcast", 1), ("reduce_add", None), ("reduce_min", None),
    ("reduce_max", None), ("reduce_xor", None), ("scan_add", None), ("any", None), ("all", None),
]  # fmt: skip


@pytest.mark.parametrize(("workgroup", "size"), [((16, 1, 1), 8), ((3, 4, 1), 8), ((3, 1, 1), 1)])
def test_sub_groups(workgroup: tuple[int, int, int], size: int) -> None:
    """Whole and partial ones, in rows that they do not divide, of numbers and of bool."""
    out = ir.array("out", dt.int32)
    at = ir.add(ir.mul(ir.lid(1), workgroup[0]), ir.lid())
    places: list[e.Expression] = [
        e.WorkItem(word, 0, dt.int32)
        for word in ("sub_group_id", "sub_group_local_id", "global_id")
    ]
    total: e.Expression = e.Const(0, dt.int32)
    for place in places:
        total = ir.add(ir.mul(total, 10), place)
    for op, argument in _SUB_GROUP_OPS:
        kind = dt.bool_ if op in ("any", "all") else dt.int32
        own: e.Expression = ir.binary("xor", ir.mul(at, 7), 5)
        if kind is dt.bool_:
            own = e.Compare("ne", own, e.Const(5, dt.int32))
        found = ir.var("found", kind)
        other = None if argument is None else e.Const(argument, dt.int32)
        value = e.Cast(found, dt.int32) if kind is dt.bool_ else found
        operation: Any = op
        body = [
            s.SubGroup(found, operation, own, other, ir.LOC),
            s.Store(out, (at,), ir.add(ir.mul(total, 1000), value), ir.LOC),
        ]
        kernel = ir.kernel([out], body, workgroup=workgroup, sub_group_size=size)
        _agree(kernel, 1, np.zeros(16, np.int32))
