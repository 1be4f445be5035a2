"""Barriers and sub-groups, and what happens when not all come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable import sim
from portable.lang.ir import expressions as e
from portable.sim.errors import BrokenPromiseError, DivergenceError, NotUniformError
from sim.build import K, binary, compare, global_array

OUT = global_array("out", dt.int32)


def run(k: K, n: int = 16, groups: int = 1) -> list[int]:
    out = np.zeros(n, np.int32)
    sim.run(k.build(), (groups, 1, 1), [out])
    return [int(x) for x in out]


def _barrier_in_branch(limit: int) -> K:
    k = K(OUT, workgroup=8)
    with k.when(compare("lt", k.lid, limit)):
        k.barrier()
    return k


def test_divergent_barrier() -> None:
    with pytest.raises(DivergenceError, match="a barrier that not all") as caught:
        run(_barrier_in_branch(5))
    assert caught.value.location.line == 2 or caught.value.location.line == 1
    assert "3 missing" in str(caught.value)
    assert "(local (5, 0, 0)" in str(caught.value)
    run(_barrier_in_branch(8))
    with sim.checks(divergence=False):
        run(_barrier_in_branch(5))


@pytest.mark.parametrize("way", ["return", "trips", "uniform"])
def test_other_ways_to_miss_a_barrier(way: str) -> None:
    k = K(OUT, workgroup=4)
    if way == "return":
        with k.when(compare("eq", k.lid, 0)):
            k.end()
        k.barrier()
    elif way == "trips":
        with k.range(0, k.lid):
            k.barrier()
    else:
        with k.when(compare("eq", k.lid, 0)):
            k.uniform(k.lid)
    with pytest.raises(DivergenceError):
        run(k)


def test_workgroup_uniform_broadcasts_and_orders() -> None:
    k = K(OUT, workgroup=4)
    a = k.local("a", (4,), dt.int32)
    k.store(a, k.lid, k.lid)
    first = k.uniform(binary("add", k.lid, 7))
    k.store(OUT, k.lid, binary("add", k.load(a, binary("sub", first, 4)), first))
    assert run(k, 4) == [10] * 4


def test_assumed_uniform() -> None:
    for value, sound in ((0, True), (None, False)):
        k = K(OUT, workgroup=4)
        x = k.let(k.lid if value is None else e.Const(value, dt.int32))
        with k.when(compare("eq", e.AssumeUniform(x), 0)):
            k.store(OUT, k.lid, 1)
        if sound:
            assert run(k, 4) == [1] * 4
            continue
        with pytest.raises(NotUniformError, match="must be the same"):
            run(k)
        with sim.checks(uniform=False):
            assert run(k, 4) == [1, 0, 0, 0]


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize("workgroup", [16, 11])
@pytest.mark.parametrize(
    ("op", "argument"),
    [
        ("shuffle", 3),
        ("shuffle", 9),
        ("shuffle", -1),
        ("shuffle_xor", 5),
        ("shuffle_up", 2),
        ("shuffle_down", 3),
        ("broadcast", 1),
        ("reduce_add", None),
        ("reduce_min", None),
        ("reduce_max", None),
        ("reduce_xor", None),
        ("reduce_and", None),
        ("reduce_or", None),
        ("scan_add", None),
    ],
)
def test_sub_group_operations(op: str, argument: int | None, workgroup: int, size: int) -> None:
    k = K(OUT, workgroup=workgroup, sub_group_size=size)
    mine = k.let(binary("xor", binary("mul", k.lid, 7), 5))
    k.store(OUT, k.lid, k.sub_group(op, mine, argument))
    values = [(7 * i) ^ 5 for i in range(workgroup)]
    assert run(k, workgroup) == [_exact(op, argument, values, i, size) for i in range(workgroup)]


def _exact(op: str, argument: int | None, values: list[int], item: int, size: int) -> int:
    own, first = item % size, item - item % size
    group = values[first : first + size]
    if argument is not None:
        at = {
            "shuffle_xor": own ^ argument,
            "shuffle_up": own - argument,
            "shuffle_down": own + argument,
        }.get(op, argument)
        return group[at] if 0 <= at < len(group) else values[item]
    folded: Any = {
        "reduce_add": sum,
        "reduce_min": min,
        "reduce_max": max,
        "reduce_xor": np.bitwise_xor.reduce,
        "reduce_and": np.bitwise_and.reduce,
        "reduce_or": np.bitwise_or.reduce,
        "scan_add": lambda g: sum(g[: own + 1]),
    }[op]
    return int(folded(group))


def test_any_and_all() -> None:
    k = K(OUT, workgroup=8, sub_group_size=8)
    some = k.sub_group("any", compare("eq", k.lid, 3))
    every = k.sub_group("all", compare("lt", k.lid, 7))
    k.store(OUT, k.lid, binary("add", e.Cast(some, dt.int32), e.Cast(every, dt.int32)))
    assert run(k, 8) == [1] * 8


def test_sub_group_that_not_all_reach() -> None:
    for limit, sound in ((8, True), (9, False)):
        k = K(OUT, workgroup=16, sub_group_size=8)
        with k.when(compare("lt", k.lid, limit)):
            k.store(OUT, k.lid, k.sub_group("reduce_add", k.lid))
        if sound:
            assert run(k)[:9] == [28] * 8 + [0]
        else:
            with pytest.raises(DivergenceError, match="sub-group"):
                run(k)


def test_broadcast_from_different_work_items() -> None:
    k = K(OUT, workgroup=8, sub_group_size=8)
    k.sub_group("broadcast", k.lid, binary("mod", k.lid, 2))
    with pytest.raises(NotUniformError):
        run(k)


def test_operands_promised_not_to_be_negative() -> None:
    for start, sound in ((0, True), (-1, False)):
        k = K(OUT, workgroup=4)
        x = k.let(binary("add", k.lid, start))
        k.store(OUT, k.lid, e.Binary("floordiv", x, e.Const(2, dt.int32), nonnegative=True))
        if sound:
            assert run(k, 4) == [0, 0, 1, 1]
            continue
        with pytest.raises(BrokenPromiseError, match="negative") as caught:
            run(k)
        assert [i.local_id[0] for i in caught.value.work_items] == [0]
        with sim.checks(promises=False):
            assert run(k, 4) == [-1, 0, 0, 1]
