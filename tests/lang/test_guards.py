"""Guards of an ndrange's edges are left out where they stop no work-item of a workgroup."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.lang.ir import statements as s
from portable.lang.ir.walks import all_statements
from tests.support.item_loops import counting, looped, loops_of

ITEMS = 64


@pt.kernel
def _guarded(x, out):
    i = kl.global_id(0)
    if i < out.shape[0]:
        total = 0.0
        for k in range(x.shape[0]):
            total = total * 0.5 + x[k, i]
        out[i] = total


@pt.kernel
def _ending_early(x, out):
    i = kl.global_id(0)
    if i >= out.shape[0]:
        return
    total = 0.0
    for k in range(x.shape[0]):
        total = total * 0.5 + x[k, i]
    out[i] = total


@pytest.mark.parametrize("launched", [_guarded, _ending_early])
@pytest.mark.parametrize("size", [1, ITEMS - 1, ITEMS, 2 * ITEMS, 3 * ITEMS - 1])
def test_guards_are_left_out_where_they_stop_nobody(launched: Any, size: int) -> None:
    x = counting(20 * size).reshape(20, size)
    kernel = looped(launched[size, ITEMS], x, np.zeros(size, np.float32))
    around = [["for", ["items", "for"]], ["for", "items"]]
    ((choice, *branches),) = loops_of(kernel.body)
    assert (choice, branches[:4]) == ("if", ["items", *around, "items"])
    assert branches[4:] == [
        ["items", "if"],
        ["for", ["items", ["for", "if"]]],
        ["for", ["items", "if"]],
        ["items", "if"],
    ]


@pt.kernel
def _guarded_sums(starts, x, out):
    i = kl.global_id(0)
    if i < out.shape[0]:
        first = starts[i]
        last = starts[i + 1]
        total = 0.0
        for k in range(first, last):
            total += x[k]
        half = x[first] * 0.5
        for k in range(out.shape[0]):
            if k == i:
                continue
            total += half
        out[i] = total


def test_a_guard_stays_around_what_only_those_behind_it_can_do() -> None:
    size = ITEMS + 5
    starts = np.arange(size + 1, dtype=np.int32) * 3
    args = starts, counting(3 * size + 1), np.zeros(size, np.float32)
    looped(_guarded_sums[size, ITEMS], *args)


@pt.kernel
def _guarded_twice(x, out):
    tile = kl.local((8, 8), kl.f32)
    i, j = kl.global_id(0), kl.global_id(1)
    value = 0.0
    if i < x.shape[1] and x.shape[0] > j:
        value = x[j, i]
    tile[kl.local_id(1), kl.local_id(0)] = value
    kl.barrier()
    if i < out.shape[1]:
        if j < out.shape[0]:
            out[j, i] = tile[kl.local_id(1), 7 - kl.local_id(0)]


@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (9, 16), (16, 7), (20, 21)])
def test_guards_in_two_dimensions(shape: tuple[int, int]) -> None:
    rows, columns = shape
    x = counting(rows * columns).reshape(shape)
    kernel = looped(_guarded_twice[(columns, rows), (8, 8)], x, np.zeros(shape, np.float32))
    if min(shape) > 1:
        choices = [x for x in kernel.body if isinstance(x, s.If)]
        assert len(choices) == 2
        assert all(not any(isinstance(y, s.If) for y in all_statements(x.then)) for x in choices)


@pt.kernel
def _inside_edges(x, out):
    i = kl.global_id(0)
    j = kl.global_id(1)
    if i >= 1 and i < x.shape[1] - 1 and 0 < j and not j >= x.shape[0] - 1:
        out[j, i] = x[j - 1, i] + x[j + 1, i] - x[j, i - 1] - x[j, i + 1]


@pytest.mark.parametrize("shape", [(3, 3), (8, 8), (24, 24), (25, 33)])
def test_guards_of_both_edges(shape: tuple[int, int]) -> None:
    x = counting(shape[0] * shape[1]).reshape(shape)
    kernel = looped(_inside_edges[(shape[1], shape[0]), (8, 8)], x, np.zeros(shape, np.float32))
    whole = all(extent % 8 == 0 for extent in shape)  # else the ndrange's end is a guard, too
    assert loops_of(kernel.body) == [["if", "items", ["items", "if" if whole else ["if", "if"]]]]


@pt.kernel
def _bound_inside(out):
    i = kl.global_id(0)
    last = out.shape[0] - 1
    if i < last:
        row = i % 7
        if row < last - 1:
            out[i] = row
    elif i == last:
        out[i] = -1


@pytest.mark.parametrize("size", [1, 2, ITEMS, ITEMS + 1, 3 * ITEMS - 1])
def test_guards_by_what_is_bound_inside_the_end_of_the_ndrange(size: int) -> None:
    looped(_bound_inside[size, ITEMS], np.zeros(size, np.int32))
