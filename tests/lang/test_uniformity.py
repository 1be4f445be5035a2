"""Where a workgroup meets: in places that provably all of its work-items reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import portable as pt
from portable import lang as kl
from portable.lang.arguments.arguments import Specialisation
from portable.lang.frontend.compile import translate
from portable.lang.ir.kernel import Options
from tests.support.refusals import (
    DEVICE,
    F32,
    INT,
    refused,
)


def b_branch(x, n):
    if kl.local_id(0) < 3:
        kl.barrier()  # here kl


def b_loaded(x, n):
    if x[0] > 0:
        kl.barrier()  # here kl


def b_bound(x, n):
    for _ in range(kl.local_id(0)):
        kl.barrier()  # here kl


def b_returned(x, n):
    if kl.global_id(0) >= n:
        return
    kl.barrier()  # here kl


def b_broken(x, n):
    for i in range(n):
        if x[i] > 0:
            break
        kl.barrier()  # here kl


def b_later_round(x, n):
    for i in range(n):
        kl.barrier()  # here kl
        if x[i] > 0:
            continue
        x[i] = 1


def b_variable(x, n):
    k = 0
    if kl.local_id(0) == 0:
        k = 1
    if k == 1:
        kl.barrier()  # here kl


def b_round_about(x, n):
    a = 0
    b = 0
    for _ in range(n):
        if a > 0:
            kl.barrier()  # here kl
        a = b
        b = kl.local_id(0)


def b_helper(x, n):
    if kl.local_id(0) == 0:
        synchronised()


@pt.function
def synchronised():
    kl.barrier()  # here kl


def b_guard(x, n):
    y = kl.workgroup_uniform(x[0]) > 0 and x[kl.local_id(0)] > 0
    if y:
        kl.barrier()  # here kl


def b_shuffle(x, n):
    if kl.sub_group_local_id() < 3:
        x[0] = kl.sub_group_reduce_add(x[0])  # here kl


def b_uniform_itself(x, n):
    if kl.local_id(0) > 3:
        x[0] = kl.workgroup_uniform(x[0])  # here kl


def b_copy(x, n):
    tile = kl.local(4, kl.f32)
    start = kl.local_id(0)
    kl.copy(tile, x[start : start + 4])  # here kl


DIVERGENT = [
    b_branch, b_loaded, b_bound, b_returned, b_broken, b_later_round, b_variable, b_round_about,
    b_helper, b_guard, b_shuffle, b_uniform_itself, b_copy,
]  # fmt: skip


@pytest.mark.parametrize("kernel", DIVERGENT)
def test_collective_operations_in_divergent_places(kernel: Callable[..., Any]) -> None:
    error = refused(kernel, F32, INT)
    assert "not provably uniform" in error.reason or "differ" in error.reason
    assert "kl.workgroup_uniform" in error.hint


def test_one_work_item_is_always_uniform() -> None:
    wanted = Specialisation((F32, INT), (), (1, 1, 1), False, True, Options())
    for kernel in DIVERGENT:
        translate(kernel, wanted, DEVICE)


def u_uniform(x, n):
    if kl.workgroup_uniform(x[0]) > 0:
        kl.barrier()


def u_assumed(x, n):
    if kl.assume_uniform(x[kl.group_id(0)]) > 0:
        kl.barrier()


def u_scalar(x, n):
    for i in range(n):
        if i % 2 == kl.group_id(0) % 2:
            kl.barrier()


def u_after_divergence(x, n):
    k = 0
    for i in range(kl.local_id(0)):
        if x[i] > 0:
            break
        k += i
    if kl.local_id(0) == 0:
        x[0] = k
    kl.barrier()


def u_shape(x, n):
    if x.shape[0] > n:
        kl.barrier()
        return
    kl.barrier()


def u_reduced(x, n):
    total = kl.sub_group_reduce_add(x[kl.local_id(0)])
    if total > 0:
        x[kl.local_id(0)] = kl.sub_group_shuffle(total, 1)


@pytest.mark.parametrize(
    "kernel", [u_uniform, u_assumed, u_scalar, u_after_divergence, u_shape, u_reduced]
)
def test_what_is_provably_uniform(kernel: Callable[..., Any]) -> None:
    wanted = Specialisation((F32, INT), (), (64, 1, 1), False, True, Options())
    translate(kernel, wanted, DEVICE)
