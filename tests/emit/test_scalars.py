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
from tests.emit.operators import OPERATIONS, SPECIALS, Operation, operation_kernel
from tests.support import irbuilder as ir
from tests.support.compilers import OpenCLDevice, opencl_devices

DEVICES = opencl_devices()
Values = np.ndarray[Any, Any]


@functools.cache
def _program(operation: Operation, lanes: int, device: OpenCLDevice) -> Program:
    return generate(operation_kernel(operation, lanes), device.capabilities)


def _result_type(operation: Operation) -> dt.DType:
    kind = operation.make(*[ir.var("x", operation.kind)] * operation.arity).type
    assert isinstance(kind, dt.DType)
    return kind


def _run(operation: Operation, device: OpenCLDevice, operands: list[Values], lanes: int) -> Values:
    count = operands[0].size
    padded = -(-count // lanes) * lanes
    filled = [np.resize(x, padded) for x in operands]
    out = np.zeros(padded, _result_type(operation).numpy)
    results = device.run(_program(operation, lanes, device), (padded // lanes,), [*filled, out])
    found = results[-1]
    assert found is not None
    return found[:count]


def _check(operation: Operation, device: OpenCLDevice, operands: list[Values], lanes: int) -> None:
    with np.errstate(all="ignore"):
        expected = operation.numpy(*operands)
    found = _run(operation, device, operands, lanes)
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
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_special_values(operation: Operation, lanes: int, runtime: OpenCLDevice) -> None:
    _check(operation, runtime, _grid(operation), lanes)


def _elements(kind: dt.DType) -> st.SearchStrategy[float]:
    if kind.is_integer:
        info = np.iinfo(kind.numpy)
        return st.integers(int(info.min), int(info.max))
    return st.floats(width=kind.bits, allow_subnormal=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("runtime", DEVICES, ids=lambda d: d.name)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_random_values(runtime: OpenCLDevice, data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from(OPERATIONS))
    count = data.draw(st.integers(1, 9))
    elements = _elements(operation.kind)
    operands = [
        np.array(
            data.draw(st.lists(elements, min_size=count, max_size=count)), operation.kind.numpy
        )
        for _ in range(operation.arity)
    ]
    _check(operation, runtime, operands, data.draw(st.sampled_from([1, 2, 8])))
