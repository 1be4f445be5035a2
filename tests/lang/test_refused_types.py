"""Types that do not meet, and what memory, atomics and copies do not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from portable import lang as kl
from portable.lang.arguments.arguments import ArraySpec
from tests.support.refusals import (
    BOOL,
    C64,
    F32,
    I32,
    I64,
    U8,
    U64,
    refused,
)


def k_mixed(x, y):
    x[0] = x[0] + y[0]  # here x[0] +


def k_divided(x, y):
    x[0] = x[0] / y[0]  # here x[0] /


def k_bits(x, y):
    x[0] = x[0] & y[0]  # here x[0] &


def k_stored(x, y):
    x[0] = y[0]  # here x


def k_compared(x, y):
    x[0] = 1 if x[0] < y[0] else 0  # here x[0] <


def k_literal(x, y):
    x[0] = x[0] + 5_000_000_000  # here x[0] +


def k_stored_literal(x, y):
    x[0] = 300  # here x


def k_power(x, y):
    x[0] = x[0] ** y[0]  # here x[0] **


def k_function(x, y):
    x[0] = kl.exp(y[0])  # here kl


def k_modulo(x, y):
    x[0] = x[0] % y[0]  # here x[0] %


TYPES = [
    (k_mixed, I64, U64, "no common type", "kl.i64"),
    (k_mixed, F32, BOOL, "do not mix", "kl."),
    (k_divided, I32, I32, "true division", "//"),
    (k_bits, F32, F32, "bit operations take integers", "kl.bitcast"),
    (k_stored, I32, F32, "stored in i32", "kl.i32"),
    (k_stored, F32, C64, "complex number stored", ""),
    (k_stored, BOOL, I32, "stored in bool", "kl.bool"),
    (k_compared, F32, C64, "no order", "kl.abs"),
    (k_compared, I64, U64, "no common type", "kl.i64"),
    (k_literal, I32, I32, "does not fit i32", "wider"),
    (k_stored_literal, U8, U8, "300 does not fit u8", ""),
    (k_power, I32, I32, "constant exponent", "float"),
    (k_function, F32, I32, "floating-point", "kl.f32"),
    (k_modulo, C64, C64, "complex numbers take", ""),
]


@pytest.mark.parametrize(("kernel", "x", "y", "reason", "hint"), TYPES)
def test_types(
    kernel: Callable[..., Any], x: ArraySpec, y: ArraySpec, reason: str, hint: str
) -> None:
    error = refused(kernel, x, y)
    assert reason in error.reason
    assert hint in error.hint


# -- memory, atomics, copies --------------------------------------------------------------------


def k_atomic_type(x, u):
    kl.atomic_add(u, 0, 1)  # here kl


def k_atomic_bits(x, u):
    kl.atomic_and(x, 0, 1)  # here kl


def k_atomic_order(x, u):
    kl.atomic_load(x, 0, order="release")  # here kl


def k_atomic_scope(x, u):
    kl.atomic_add(x, 0, 1.0, scope="galaxy")  # here kl


def k_atomic_private(x, u):
    own = kl.private(3, kl.i32)
    kl.atomic_add(own, 0, 1)  # here kl


def k_fence(x, u):
    kl.fence("relaxed")  # here kl


def k_copy_spaces(x, u):
    kl.copy(x[0:4], u[0:4])  # here kl


def k_copy_dtypes(x, u):
    tile = kl.local(4, kl.u8)
    kl.copy(tile, x[0:4])  # here kl


def k_copy_shapes(x, u):
    tile = kl.local(8, kl.f32)
    kl.copy(tile, x[0:4])  # here kl


def k_copy_extent(x, u):
    tile = kl.local(8, kl.f32)
    kl.copy(tile, x[0 : kl.group_id(0)])  # here kl


def k_wait(x, u):
    kl.copy_wait(kl.group_id(0))  # here kl


def k_slot(x, u):
    tile = kl.local(8, kl.f32)
    kl.bulk_copy(tile, 0, x, 0, 8, x)  # here kl


def k_any_number(x, u):
    x[0] = 1 if kl.sub_group_any(x[0]) else 0  # here kl


def k_bitcast(x, u):
    x[0] = kl.bitcast(kl.i64(u[0]), kl.f32)  # here kl


MEMORY = [
    (k_atomic_type, "u8 global array"),
    (k_atomic_bits, "f32 global array"),
    (k_atomic_order, "order relaxed or acquire"),
    (k_atomic_scope, "scope workgroup or device"),
    (k_atomic_private, "private array"),
    (k_fence, "acquire, release or acq_rel"),
    (k_copy_spaces, "between a global and a local"),
    (k_copy_dtypes, "f32 to u8"),
    (k_copy_shapes, "(4,) to one of shape (8,)"),
    (k_copy_extent, "known at compile time"),
    (k_wait, "constant number"),
    (k_slot, "kl.completion"),
    (k_any_number, "takes a bool"),
    (k_bitcast, "same width"),
]


@pytest.mark.parametrize(("kernel", "reason"), MEMORY)
def test_memory_and_atomics(kernel: Callable[..., Any], reason: str) -> None:
    error = refused(kernel, F32, U8)
    assert reason in error.reason + error.hint
