"""Kernels of workgroups as loops over their work-items: what they look like, and what they do."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.walks import all_statements
from portable_backends.simulator.backend import SimulatorDevice
from tests.support.item_loops import (
    LoopingSimulator,
    counting,
    inside_loops,
    looped,
    looping_device,
    loops_of,
    loops_on,
)
from tests.support.launch import run
from tests.support.random_checks import workgroup_arguments
from tests.support.random_kernels import imported
from tests.support.random_workgroups import ITEMS as TOGETHER
from tests.support.random_workgroups import random_workgroups

ITEMS = 64


def _kept(kernel: Kernel) -> dict[str, tuple[int, ...]]:
    """The arrays that values cross in, by the values' names."""
    return {a.name: a.shape for a in kernel.arrays if a.space == "private"}


# -- what crosses -------------------------------------------------------------------------------


@pt.kernel
def _reversed(x, out):
    tile = kl.local((ITEMS,), kl.f32)
    lid, i = kl.local_id(0), kl.global_id(0)
    value = x[i]
    tile[lid] = value
    kl.barrier()
    out[i] = tile[ITEMS - 1 - lid] + value


def test_a_loaded_value_is_kept_and_places_are_worked_out_again() -> None:
    kernel = looped(_reversed[4 * ITEMS, ITEMS], counting(), np.zeros(4 * ITEMS, np.float32))
    assert loops_of(kernel.body) == ["items", "items"]
    assert list(_kept(kernel).values()) == [(ITEMS,)], "x[i], and neither lid nor i"
    assert not any(isinstance(x, s.Barrier) for x in all_statements(kernel.body))


@pt.kernel
def _no_values_cross(x, out):
    tile = kl.local((ITEMS,), kl.f32)
    lid, i = kl.local_id(0), kl.global_id(0)
    half = x[i] * 0.5
    tile[lid] = half * half
    kl.barrier()
    half = tile[ITEMS - 1 - lid] * 2.0
    out[i] = half


def test_a_variable_that_starts_anew_is_not_kept() -> None:
    args = counting(), np.zeros(4 * ITEMS, np.float32)
    assert _kept(looped(_no_values_cross[4 * ITEMS, ITEMS], *args)) == {}


@pt.kernel
def _sometimes_assigned(x, out):
    tile = kl.local((ITEMS,), kl.f32)
    lid, i = kl.local_id(0), kl.global_id(0)
    value = x[i]
    tile[lid] = value
    kl.barrier()
    if lid % 3 == 0:
        value = tile[ITEMS - 1 - lid]
    kl.barrier()
    tile[lid] = value + 1.0
    kl.barrier()
    out[i] = value + tile[lid ^ 1]


def test_what_only_some_assign_is_kept_for_the_others_as_it_was() -> None:
    args = counting(), np.zeros(4 * ITEMS, np.float32)
    kernel = looped(_sometimes_assigned[4 * ITEMS, ITEMS], *args)
    assert _kept(kernel).keys() == {"x_at@items", "value@items"}


@pt.kernel
def _uniform_values(x, out, n):
    tile = kl.local((ITEMS,), kl.f32)
    lid, i = kl.local_id(0), kl.global_id(0)
    first = kl.workgroup_uniform(x[i])
    count = 0
    tile[lid] = x[i] + count
    count = count + n
    kl.barrier()
    out[i] = first + tile[lid ^ 1] + count
    count = count * 3
    out[i] = out[i] + count


def test_what_is_the_same_for_all_stays_in_plain_variables() -> None:
    args = counting(), np.zeros(4 * ITEMS, np.float32), 5
    kernel = looped(_uniform_values[4 * ITEMS, ITEMS], *args)
    kept = _kept(kernel)
    assert not [name for name in kept if name.startswith(("first", "count"))]
    assert len(kept) == 1, "what the first work-item's value is taken from"
    assert inside_loops(kernel, s.Assign) == 0, "count is worked out once for all"


@pt.kernel
def _uniform_load(weights, x, out):
    i = kl.global_id(0)
    scale = weights[kl.group_id(0)]
    out[i] = scale * x[i]


def test_a_load_of_the_same_element_by_all_is_done_once() -> None:
    args = np.arange(1, 5, dtype=np.float32), counting(), np.zeros(4 * ITEMS, np.float32)
    kernel = looped(_uniform_load[4 * ITEMS, ITEMS], *args)
    assert loops_of(kernel.body) == ["items"]
    assert inside_loops(kernel, s.Load) == 1


@pt.kernel
def _load_behind_return(weights, x, out):
    i = kl.global_id(0)
    if i >= weights.shape[0]:
        return
    out[i] = weights[0] * x[i]


def test_no_load_is_done_before_work_items_end_that_would_not_do_it() -> None:
    empty = np.zeros(0, np.float32)
    kernel = looped(_load_behind_return[ITEMS, ITEMS], empty, counting(ITEMS), counting(ITEMS))
    assert not any(isinstance(x, s.Load) for x in kernel.body)


@pt.kernel
def _registers(x, out):
    tile = kl.local((ITEMS,), kl.f32)
    held = kl.private((4,), kl.f32)
    own = kl.private((2,), kl.f32)
    lid, i = kl.local_id(0), kl.global_id(0)
    for k in range(4):
        held[k] = x[i] * k
    tile[lid] = held[1]
    kl.barrier()
    own[0] = tile[lid ^ 1]
    own[1] = held[3]
    out[i] = own[lid % 2] + held[lid % 4]


def test_private_arrays_that_cross_hold_neighbouring_work_items_side_by_side() -> None:
    args = counting(), np.zeros(4 * ITEMS, np.float32)
    kernel = looped(_registers[4 * ITEMS, ITEMS], *args)
    arrays = {a.name: a for a in kernel.arrays}
    assert arrays["held"].shape == (ITEMS, 4)
    assert arrays["held"].layout is not None
    assert arrays["held"].layout.strides == (1, ITEMS)
    assert arrays["own"].shape == (2,), "it holds nothing when the work-items meet"


@pt.kernel
def _vector_registers(x, out):
    tile = kl.local((ITEMS,), kl.f32)
    held = kl.private((8,), kl.f32)
    lid, i = kl.local_id(0), kl.global_id(0)
    for k in range(8):
        held[k] = x[i] * k
    tile[lid] = held[1]
    kl.barrier()
    four = kl.vload(held, 4 * (lid % 2), lanes=4)
    out[i] = four[0] + four[3] + tile[lid ^ 1]


def test_private_arrays_that_are_read_in_vectors_stay_together() -> None:
    args = counting(), np.zeros(4 * ITEMS, np.float32)
    kernel = looped(_vector_registers[4 * ITEMS, ITEMS], *args)
    held = next(a for a in kernel.arrays if a.name == "held")
    assert held.layout is not None
    assert held.layout.strides == (8, 1)


# -- control flow -------------------------------------------------------------------------------


@pt.kernel
def _rounds(x, out, n):
    tile = kl.local((ITEMS,), kl.f32)
    lid, i = kl.local_id(0), kl.global_id(0)
    total = 0.0
    for k in range(n):
        if k == 3:
            break
        tile[lid] = x[i] + k
        kl.barrier()
        if kl.group_id(0) % 2 == 0:
            total += tile[ITEMS - 1 - lid]
            kl.barrier()
            continue
        total -= tile[lid ^ 1]
        kl.barrier()
    out[i] = total


def test_loops_and_branches_with_barriers_stand_around_those_over_work_items() -> None:
    for n in (0, 2, 5):
        args = counting(), np.zeros(4 * ITEMS, np.float32), n
        kernel = looped(_rounds[4 * ITEMS, ITEMS], *args)
    assert loops_of(kernel.body) == [
        "items",
        ["for", "if", "items", ["if", "items"], "items"],
        "items",
    ]


@pt.kernel
def _some_end_late(x, out):
    tile = kl.local((ITEMS,), kl.f32)
    lid, i = kl.local_id(0), kl.global_id(0)
    out[i] = 0.0
    if kl.group_id(0) > 0:
        tile[lid] = x[i]
        kl.barrier()
        if lid % 2 == 0:
            out[i] = tile[lid ^ 1]
            if lid % 4 == 0:
                return
        out[i] = out[i] + 100.0
    out[i] = out[i] + 1000.0


def test_work_items_that_have_ended_do_nothing_in_later_loops() -> None:
    args = counting(), np.zeros(4 * ITEMS, np.float32)
    kernel = looped(_some_end_late[4 * ITEMS, ITEMS], *args)
    assert "returned@" in _kept(kernel)


@pt.kernel
def _ends_alike(x, out, n):
    tile = kl.local((ITEMS,), kl.f32)
    lid, i = kl.local_id(0), kl.global_id(0)
    if kl.group_id(0) >= n:
        return
    tile[lid] = x[i]
    kl.barrier()
    out[i] = tile[lid ^ 1]


def test_a_workgroup_that_ends_together_ends_once() -> None:
    args = counting(), np.zeros(4 * ITEMS, np.float32), 2
    kernel = looped(_ends_alike[4 * ITEMS, ITEMS], *args)
    assert loops_of(kernel.body) == ["if", "items", "items"]
    assert inside_loops(kernel, s.Return) == 0


@pt.kernel
def _alone(x, out):
    tile = kl.local((1,), kl.f32)
    tile[0] = x[kl.global_id(0)]
    kl.barrier()
    out[kl.global_id(0)] = tile[0] + kl.workgroup_uniform(tile[0])


def test_a_workgroup_of_one_needs_no_loop() -> None:
    kernel = looped(_alone[5, 1], counting(5), np.zeros(5, np.float32))
    assert loops_of(kernel.body) == []


@pt.kernel
def _in_three_dimensions(x, out):
    tile = kl.local((2, 3, 8), kl.f32)
    i, j, k = kl.local_id(0), kl.local_id(1), kl.local_id(2)
    at = kl.global_id(0) + 16 * (kl.global_id(1) + 6 * kl.global_id(2))
    tile[k, j, i] = x[at]
    value = x[at] * 2.0
    kl.barrier()
    out[at] = value + tile[1 - k, 2 - j, 7 - i] + kl.local_linear_id()


def test_workgroups_of_several_dimensions() -> None:
    size = 16 * 6 * 4
    looped(_in_three_dimensions[(16, 6, 4), (8, 3, 2)], counting(size), np.zeros(size, np.float32))


@pt.kernel
def _given_by_some(x, out, n):
    tile = kl.local((ITEMS,), kl.f32)
    lid, i = kl.local_id(0), kl.global_id(0)
    for r in range(n):
        if i < out.shape[0]:
            total = 0.0
            for k in range(x.shape[0]):
                total = total * 0.5 + x[k, i]
            tile[lid] = total + r
        kl.barrier()
        if i < out.shape[0]:
            out[i] = tile[lid]
        kl.barrier()


def test_values_that_only_some_ever_have() -> None:
    size = ITEMS + 5
    args = counting(20 * size).reshape(20, size), np.zeros(size, np.float32), 2
    kernel = looped(_given_by_some[size, ITEMS], *args)
    assert "total@items" in _kept(kernel)


# -- loops that are moved out -------------------------------------------------------------------


@pt.kernel
def _columns(x, out):
    i = kl.global_id(0)
    total = 0.0
    for k in range(x.shape[0]):
        total = total * 0.5 + x[k, i]
    out[i] = total


@pt.kernel
def _rows(x, out):
    i = kl.global_id(0)
    total = 0.0
    for k in range(x.shape[1]):
        total = total * 0.5 + x[i, k]
    out[i] = total


def test_a_loop_down_neighbouring_columns_is_moved_out() -> None:
    for rows in (0, 3, 8, 19):
        x = counting(rows * ITEMS).reshape(rows, ITEMS)
        kernel = looped(_columns[ITEMS, ITEMS], x, np.zeros(ITEMS, np.float32))
    around = [["for", ["items", "for"]], ["for", "items"]]
    assert loops_of(kernel.body) == ["items", *around, "items"]
    assert [shape for name, shape in _kept(kernel).items()] == [(ITEMS,)]


def test_a_loop_along_a_row_stays_in() -> None:
    x = counting(20 * ITEMS).reshape(ITEMS, 20)
    kernel = looped(_rows[ITEMS, ITEMS], x, np.zeros(ITEMS, np.float32))
    assert loops_of(kernel.body) == [["items", "for"]]


@pt.kernel
def _with_strides(x, out):
    total = 0.0
    for i in range(kl.global_id(0), x.shape[0], kl.global_size(0)):
        total = total * 0.5 + x[i]
    out[kl.global_id(0)] = total


@pytest.mark.parametrize("size", [1, 100, 128, 1000, 4096])
def test_rounds_that_some_do_not_have_are_left_out(size: int) -> None:
    args = counting(size), np.zeros(2 * ITEMS, np.float32)
    kernel = looped(_with_strides[2 * ITEMS, ITEMS], *args)
    assert ["for", ["items", "if"]] in loops_of(kernel.body), "those that not all go"
    assert ["for", ["items", "for"]] in loops_of(kernel.body), "those that all go, some at once"


@pt.kernel
def _triangle(x, out):
    i = kl.global_id(0)
    total = 0.0
    for k in range(i % 23 + 1):
        total = total * 0.5 + x[k, i]
    out[i] = total


def test_loops_of_different_lengths() -> None:
    x = counting(23 * ITEMS).reshape(23, ITEMS)
    kernel = looped(_triangle[ITEMS, ITEMS], x, np.zeros(ITEMS, np.float32))
    assert ["for", ["items", "if"]] in loops_of(kernel.body)


@pt.kernel
def _search(x, out):
    i = kl.global_id(0)
    at = -1
    for k in range(x.shape[0]):
        if x[k, i] == 7.0:
            at = k
            break
    out[i] = at


def test_a_loop_that_some_leave_stays_in() -> None:
    x = counting(20 * ITEMS).reshape(20, ITEMS)
    kernel = looped(_search[ITEMS, ITEMS], x, np.zeros(ITEMS, np.int32))
    assert loops_of(kernel.body) == [["items", ["for", "if"]]]


@pt.kernel
def _product(a, b, c, *, T):
    ta, tb = kl.local((T, T), kl.f32), kl.local((T, T), kl.f32)
    lx, ly, col, row = kl.local_id(0), kl.local_id(1), kl.global_id(0), kl.global_id(1)
    total = 0.0
    for t in range(0, a.shape[1], T):
        ta[ly, lx] = a[row, t + lx]
        tb[ly, lx] = b[t + ly, col]
        kl.barrier()
        for k in range(T):
            total += ta[ly, k] * tb[k, lx]
        kl.barrier()
    c[row, col] = total


def test_a_product_of_tiles() -> None:
    a = counting(32 * 48).reshape(32, 48)
    kernel = looped(
        _product[(32, 32), (16, 16)], a, a.T.copy(), np.zeros((32, 32), np.float32), T=16
    )
    assert loops_of(kernel.body) == [
        "items",
        ["for", "items", ["for", ["items", "for"]]],
        "items",
    ]


# -- everything ---------------------------------------------------------------------------------


def _same_bits(device: Device, plain: Device, seed: int, folder: Path) -> None:
    text = random_workgroups(Random(seed), 1)
    launcher = imported(text, folder).kernel[3 * TOGETHER, TOGETHER]
    args = workgroup_arguments()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = run(plain, launcher, *args)
        with loops_on(device):
            found = run(device, launcher, *args)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=f"seed {seed}\n{text}")


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels_in_the_simulator(seed: int, tmp_path: Path) -> None:
    plain = replace(pt.device("simulator").capabilities, sub_group_size=1)
    _same_bits(LoopingSimulator("loops", plain), SimulatorDevice("one", plain), seed, tmp_path)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["cpu:pocl", "cpu:intel"])
def test_random_kernels_through_compilers(name: str, seed: int, tmp_path: Path) -> None:
    found = {device.name: device for device in pt.devices()}
    if name not in found:
        pytest.skip(f"there is no {name}")
    plain = replace(pt.device("simulator").capabilities, sub_group_size=1)
    _same_bits(looping_device(found[name]), SimulatorDevice("one", plain), 100 + seed, tmp_path)


def test_short_rows_are_not_unrolled_before_vectors_are_taken() -> None:
    """LLVM took vectors across the rows of 16 x 16 work-items else, by gathers and scatters."""
    if "cpu:native" not in {device.name for device in pt.devices()}:
        pytest.skip("there is no cpu:native")
    x = counting(16 * 6 * 4)
    with pt.use("cpu:native"):
        rows = _in_three_dimensions[(16, 6, 4), (8, 3, 2)].lower(x, x.copy()).program
        line = _reversed[4 * ITEMS, ITEMS].lower(counting(), counting()).program
    assert rows is not None
    assert line is not None
    assert _not_unrolled(rows.source) == _not_unrolled(line.source) + 2 * 3, (
        "a row in each of two loops, and two loops around each row"
    )


def _not_unrolled(text: str) -> int:
    """How many loops of a program are not to be unrolled."""
    node = re.search(r'(!\d+) = !{!"llvm.loop.unroll.disable"}', text)
    return 0 if node is None else len(re.findall(rf"{node[1]}\b", text)) - 1
