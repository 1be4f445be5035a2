"""Atomic operations against the same done one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portable import dtypes as dt
from portable import sim
from sim.build import K, global_array

_OPS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exchange": lambda old, new: new,
}


@pytest.mark.parametrize("kind", [dt.int32, dt.uint32, dt.int64, dt.uint64, dt.float32, dt.float64])
@pytest.mark.parametrize("op", _OPS)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_in_linear_order(op: str, kind: dt.DType, data: Any) -> None:
    if kind.is_float and op in {"and", "or", "xor"}:
        return
    numbers = st.integers(0, 2**31 - 1)
    rows = data.draw(st.lists(st.tuples(st.integers(0, 3), numbers), min_size=1, max_size=12))
    places = np.array([r[0] for r in rows], np.int32)
    values = np.array([r[1] for r in rows]).astype(kind.numpy)
    index, operand = global_array("index", dt.int32), global_array("operand", kind)
    target, old = global_array("target", kind), global_array("old", kind)
    k = K(index, operand, target, old, workgroup=len(rows))
    before = k.atomic(op, target, k.load(index, k.lid), k.load(operand, k.lid))
    k.store(old, k.lid, before)
    found, olds = np.full(4, 5, kind.numpy), np.zeros(len(rows), kind.numpy)
    sim.run(k.build(), (1, 1, 1), [places, values, found, olds])
    exact = np.full(4, 5, kind.numpy)
    for place, value, seen in zip(places, values, olds, strict=True):
        assert exact[place] == seen
        with np.errstate(over="ignore"):
            exact[place] = _OPS[op](exact[place], value)
    assert (exact == found).all()


def test_compare_exchange_lets_one_win() -> None:
    target, old = global_array("target", dt.int32), global_array("old", dt.int32)
    k = K(target, old, workgroup=6)
    seen = k.atomic("compare_exchange", target, 0, k.let(k.lid), -1)
    k.store(old, k.lid, seen)
    found, olds = np.full(1, -1, np.int32), np.zeros(6, np.int32)
    sim.run(k.build(), (1, 1, 1), [found, olds])
    assert found[0] == 0
    assert olds.tolist() == [-1, 0, 0, 0, 0, 0]


def test_atomics_on_strided_arrays() -> None:
    target = global_array("target", dt.int32)
    k = K(target, workgroup=4)
    k.atomic("add", target, k.lid, 3)
    memory = np.zeros((4, 3), np.int32)
    sim.run(k.build(), (2, 1, 1), [memory[::-1, 1]])
    assert memory.tolist() == [[0, 6, 0]] * 4
