"""Every scalar operation, generated and run on OpenCL devices, against NumPy."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portable import dtypes as dt
from portable.backend import Program
from portable.lang.emit import generate
from tests.emit.operators import OPERATIONS, SPECIALS, Operation, operations_kernel
from tests.support import irbuilder as ir
from tests.support.compilers import opencl_devices
from tests.support.llvm import Runtime, devices

DEVICES = (*opencl_devices(), *devices())
Values = np.ndarray[Any, Any]


_TOGETHER = 12
"""Operations that one program does: a compiler takes longer to begin than over any one of them."""


def _groups() -> dict[str, tuple[Operation, ...]]:
    """The operations, those on the same operands together."""
    found: dict[str, tuple[Operation, ...]] = {}
    for kind, arity in dict.fromkeys((x.kind, x.arity) for x in OPERATIONS):
        alike = [x for x in OPERATIONS if (x.kind, x.arity) == (kind, arity)]
        for first in range(0, len(alike), _TOGETHER):
            some = tuple(alike[first : first + _TOGETHER])
            found[f"{some[0].name}-{some[-1].name}-{kind.short}"] = some
    return found


GROUPS = _groups()


@functools.cache
def _program(operations: tuple[Operation, ...], lanes: int, device: Runtime) -> Program:
    return generate(operations_kernel(operations, lanes), device.capabilities)


def _result_type(operation: Operation) -> dt.DType:
    kind = operation.make(*[ir.var("x", operation.kind)] * operation.arity).type
    assert isinstance(kind, dt.DType)
    return kind


def _check_all(
    operations: tuple[Operation, ...],
    device: Runtime,
    operands: list[Values],
    lanes: int,
) -> None:
    """Runs operations on the same operands, and looks at the results of each."""
    count = operands[0].size
    padded = -(-count // lanes) * lanes
    filled = [np.resize(x, padded) for x in operands]
    outs = [np.zeros(padded, _result_type(x).numpy) for x in operations]
    program = _program(operations, lanes, device)
    results = device.run(program, (padded // lanes,), [*filled, *outs])
    for operation, found in zip(operations, results[-len(outs) :], strict=True):
        _check(operation, operands, found[:count])


def _check(operation: Operation, operands: list[Values], found: Values) -> None:
    with np.errstate(all="ignore"):
        expected = operation.numpy(*operands)
    if expected.dtype.kind != "f":
        wrong = found != expected
    else:
        wrong = ~_close(operation, found, expected, operands)
    if wrong.any():
        at = np.flatnonzero(wrong)[:5]
        shown = [tuple(x[i] for x in operands) for i in at]
        pytest.fail(f"{operation} of {shown} gives {found[at]}, expected {expected[at]}")


def _close(operation: Operation, found: Values, expected: Values, operands: list[Values]) -> Values:
    """Within the documented ulps; results that are subnormal are not promised."""
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    if operation.ulp == 0:
        return same
    with np.errstate(all="ignore"):
        wide = [x.astype(np.longdouble) for x in operands]
        exact = operation.numpy(*wide) if operation.name not in ("nextafter", "fma") else expected
        unit = np.spacing(np.abs(expected)).astype(np.longdouble)
        near = np.abs(found.astype(np.longdouble) - exact) <= operation.ulp * unit
    tiny = np.abs(expected) < np.finfo(expected.dtype).tiny
    huge = np.isinf(expected) & (np.abs(found) > np.finfo(expected.dtype).max / 2)
    return same | near | tiny | huge


def _grid(operation: Operation) -> list[Values]:
    values = SPECIALS[operation.kind.short]
    rows = list(itertools.product(values, repeat=min(operation.arity, 2)))
    columns = [np.array(c, operation.kind.numpy) for c in zip(*rows, strict=True)]
    return [*columns, columns[0][::-1].copy()][: operation.arity]


@pytest.mark.parametrize("runtime", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("group", GROUPS)
def test_special_values(group: str, lanes: int, runtime: Runtime) -> None:
    operations = GROUPS[group]
    _check_all(operations, runtime, _grid(operations[0]), lanes)


def _elements(kind: dt.DType) -> st.SearchStrategy[float]:
    if kind.is_integer:
        info = np.iinfo(kind.numpy)
        return st.integers(int(info.min), int(info.max))
    return st.floats(width=kind.bits, allow_subnormal=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("runtime", DEVICES, ids=lambda d: d.name)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_random_values(runtime: Runtime, data: st.DataObject) -> None:
    operations = GROUPS[data.draw(st.sampled_from(list(GROUPS)))]
    kind, count = operations[0].kind, data.draw(st.integers(1, 9))
    values = st.lists(_elements(kind), min_size=count, max_size=count)
    operands = [np.array(data.draw(values), kind.numpy) for _ in range(operations[0].arity)]
    _check_all(operations, runtime, operands, data.draw(st.sampled_from([2, 8])))
