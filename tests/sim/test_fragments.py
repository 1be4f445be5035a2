"""Matrix fragments of every scope."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable import sim
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array
from portable.sim.errors import BrokenPromiseError, DivergenceError, NotUniformError, RaceError
from sim.build import K, binary, compare, const, global_array

A, B = global_array("a", dt.float32, 2), global_array("b", dt.float32, 2)
C = global_array("c", dt.float32, 2)
SCOPES = ["work_item", "sub_group", "workgroup"]


def run(k: K, *arguments: Any, groups: int = 1) -> None:
    sim.run(k.build(), (groups, 1, 1), arguments)


def region(array: Array, *starts: Any, extents: Any, transposed: bool = False) -> e.Region:
    fixed = tuple(x if isinstance(x, e.Expression) else const(x) for x in starts)
    return e.Region(array, fixed, extents, transposed)


def _row(k: K, scope: str) -> e.Expression:
    """A block row of its own for each instance of a scope."""
    if scope == "work_item":
        return k.gid
    if scope == "workgroup":
        return k.group
    groups = k.word("sub_group_id")
    return binary("add", binary("mul", k.group, 2), groups)


def product(scope: Any, *, a: Array = A, b: Array = B) -> K:
    """c += a @ b by block rows of four, then doubled element by element."""
    k = K(a, b, C, workgroup=16, sub_group_size=8)
    left = k.fragment("left", (4, 6), dt.float32, scope=scope, use="a")
    right = k.fragment("right", (6, 5), dt.float32, scope=scope, use="b")
    total = k.fragment("total", (4, 5), dt.float32, scope=scope)
    row = k.let(binary("mul", _row(k, scope), 4))
    k.add(s.FragmentLoad(total, region(C, row, 0, extents=(4, 5)), k.loc))
    k.add(s.FragmentLoad(left, region(a, row, 0, extents=(4, 6)), k.loc))
    k.add(s.FragmentLoad(right, region(b, 0, 0, extents=(6, 5), transposed=False), k.loc))
    k.add(s.Multiply(total, left, right, k.loc))
    value = k.variable("value", dt.float32)
    k.assign(value, 0.0)
    with k.elements(total, value, True) as (i, j), k.when(compare("eq", i, j)):
        k.assign(value, binary("mul", value, 2.0))
    k.add(s.FragmentStore(total, region(C, row, 0, extents=(4, 5)), k.loc))
    return k


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("short", [0, 3])
def test_product_in_place(scope: str, short: int) -> None:
    instances = {"work_item": 32, "sub_group": 4, "workgroup": 2}[scope]
    rows = 4 * instances - short
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (rows, 6)).astype(np.float32)
    b = rng.integers(-4, 5, (6, 5)).astype(np.float32)
    c = rng.integers(-4, 5, (rows, 5)).astype(np.float32)
    expected = c + a @ b
    for i in range(rows):
        if i % 4 < 5:
            expected[i, i % 4] *= 2
    run(product(scope), a, b, c, groups=2)
    assert (c == expected).all()


@pytest.mark.parametrize("scope", SCOPES)
def test_each_element_is_held_once(scope: Any) -> None:
    count = global_array("count", dt.int32, 2)
    k = K(count, workgroup=11, sub_group_size=8)
    f = k.fragment("f", (5, 7), dt.float32, scope=scope)
    k.add(s.FragmentFill(f, const(1.5, dt.float32), k.loc))
    value = k.variable("value", dt.float32)
    k.assign(value, 0.0)
    with k.elements(f, value, False) as (i, j):
        at = binary("add", binary("mul", i, 7), j)
        k.add(
            s.Atomic(None, "add", count, (at, const(0)), const(1), None, "relaxed", "device", k.loc)
        )
    found = np.zeros((35, 1), np.int32)
    run(k, found)
    assert (found == {"work_item": 11, "sub_group": 2, "workgroup": 1}[scope]).all()


def test_half_operands_from_local_memory() -> None:
    a = global_array("a", dt.float16, 2)
    k = K(a, C, workgroup=8, sub_group_size=8)
    tile = k.local("tile", (4, 4), dt.float16)
    total = k.fragment("total", (4, 4), dt.float32, scope="sub_group")
    whole = region(tile, 0, 0, extents=(4, 4))
    k.add(s.CopyTile(whole, region(a, 0, 0, extents=(4, 4)), k.loc, False))
    k.barrier()
    k.add(s.FragmentFill(total, const(0.0, dt.float32), k.loc))
    transposed = region(tile, 0, 0, extents=(4, 4), transposed=True)
    k.add(s.Multiply(total, whole, transposed, k.loc))
    k.add(s.FragmentStore(total, region(C, 0, 0, extents=(4, 4)), k.loc))
    x = (np.arange(16).reshape(4, 4) / 7).astype(np.float16)
    c = np.zeros((4, 4), np.float32)
    run(k, x, c)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(c, wide @ wide.T, rtol=1e-6)


def _through_local(barrier: bool) -> K:
    k = K(C, workgroup=16, sub_group_size=8)
    tile = k.local("tile", (4, 4), dt.float32)
    f = k.fragment("f", (4, 4), dt.float32, scope="sub_group")
    k.add(s.FragmentFill(f, const(3.0, dt.float32), k.loc))
    with k.when(compare("lt", k.lid, 8)):
        k.add(s.FragmentStore(f, region(tile, 0, 0, extents=(4, 4)), k.loc))
    if barrier:
        k.barrier()
    at = binary("floordiv", k.lid, 4), binary("mod", k.lid, 4)
    k.store(C, *at, k.load(tile, *at))
    return k


def test_a_stored_fragment_is_read_after_a_barrier() -> None:
    c = np.zeros((4, 4), np.float32)
    run(_through_local(True), c)
    assert (c == 3).all()
    with pytest.raises(RaceError, match="sub-group"):
        run(_through_local(False), c)


@pytest.mark.parametrize(
    ("scope", "text"), [("sub_group", "sub-group"), ("workgroup", "workgroup")]
)
def test_matrix_operations_that_not_all_reach(scope: Any, text: str) -> None:
    k = K(workgroup=16, sub_group_size=8)
    f = k.fragment("f", (4, 4), dt.float32, scope=scope)
    with k.when(compare("lt", k.lid, 12)):
        k.add(s.FragmentFill(f, const(0.0, dt.float32), k.loc))
    with pytest.raises(DivergenceError, match=text):
        run(k)


def test_places_that_differ_within_the_scope() -> None:
    k = K(A, workgroup=8, sub_group_size=8)
    f = k.fragment("f", (4, 4), dt.float32, scope="sub_group")
    k.add(s.FragmentLoad(f, region(A, k.lid, 0, extents=(4, 4)), k.loc))
    with pytest.raises(NotUniformError, match="where a matrix starts"):
        run(k, np.zeros((16, 16), np.float32))


@pytest.mark.parametrize("depth", [2, 3, 9])
def test_only_the_valid_part_of_a_product(depth: int) -> None:
    k = K(A, B, C, workgroup=8, sub_group_size=8)
    left = k.fragment("left", (4, 4), dt.float32, scope="sub_group", use="a")
    right = k.fragment("right", (4, 4), dt.float32, scope="sub_group", use="b")
    total = k.fragment("total", (4, 4), dt.float32, scope="sub_group")
    k.add(s.FragmentFill(total, const(1.0, dt.float32), k.loc))
    k.add(s.FragmentLoad(left, region(A, 0, 0, extents=(4, 4)), k.loc))
    k.add(s.FragmentLoad(right, region(B, 0, 0, extents=(4, 4)), k.loc))
    valid = const(3), const(2), const(depth)
    k.add(s.Multiply(total, left, right, k.loc, valid))
    k.add(s.FragmentStore(total, region(C, 0, 0, extents=(4, 4)), k.loc))
    a, b = np.ones((4, 3), np.float32), np.ones((3, 4), np.float32)
    c = np.zeros((4, 4), np.float32)
    if depth == 2:
        with pytest.raises(BrokenPromiseError, match="not zero beyond its valid part"):
            run(k, a, b, c)
        return
    run(k, a, b, c)
    expected = np.ones((4, 4))
    expected[:3, :2] += 3
    assert (c == expected).all()
