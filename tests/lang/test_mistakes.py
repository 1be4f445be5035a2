"""Mistakes that are easily made, those of users of other languages among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from tests.support.refusals import (
    F32,
    FLOAT,
    MATRIX,
    refused,
)


def leaves_elements(x):
    total = kl.matrix((8, 8), kl.f32)
    total.fill(0.0)
    for row, column, value in kl.elements(total):
        if value > 1.0:
            break  # here
        x[row, column] = value


def test_leaving_the_elements_of_a_matrix() -> None:
    error = refused(leaves_elements, MATRIX)
    assert "no set order" in str(error)


def fills_with_two(x):
    total = kl.matrix((8, 8), kl.f32)
    total.fill(0.0, 1.0)  # here


def test_too_many_arguments_for_a_matrix() -> None:
    error = refused(fills_with_two, MATRIX)
    assert "fill of a kl.matrix: too many positional arguments" in str(error)


def k_misspelt(x):
    x[kl.globl_id(0)] = 1  # here kl


def k_misspelt_name(value):
    value[0] = valeu[1]  # here valeu  # noqa: F821


def k_endless(x):
    while True:  # here while
        for i in range(3):
            if x[i] > 0:
                break
        x[0] = 1


def k_whole_array(x):
    x += 1  # here 1


def k_few(x):
    x[0] = kl.where(x[0] > 0, 1.0)  # here kl


@pt.kernel
def other(x):
    x[0] = 1


def k_calls_kernel(x):
    other(x)  # here other


def k_launches_kernel(x):
    other[1](x)  # here other


def k_yields(x):
    yield x[0]  # here yield


def k_word_alone(x):
    kl.barrier  # here kl  # noqa: B018


def k_word_as_index(x):
    x[kl.global_id] = 1  # here x


def k_word_compared(x):
    if kl.local_id == 0:  # here kl
        x[0] = 1


def k_word_as_condition(x):
    if kl.sub_group_size:  # here if
        x[0] = 1


def k_complex_as_condition(x):
    z = kl.complex(x[0], x[1])
    if z:  # here if
        x[0] = 1


def k_array_as_condition(x):
    x[0] = 1 if x else 2  # here x else


def k_not_array(x):
    x[0] = 1 if not x else 2  # here not


def k_arrays_compared(x):
    if x == x:  # here x ==
        x[0] = 1


def k_array_to_the_power(x):
    x[0] = x**2  # here x**


def k_array_negated(x):
    x[0] = -x  # here -


def k_array_stored(x):
    x[0] = x  # here x


def k_shadowed(x):
    range = 3
    for i in range(4):  # here range
        x[i] = 1


def k_sum(x):
    x[0] = sum(x)  # here sum


def k_truth_of_array(x):
    if bool(x):  # here bool
        x[0] = 1


def k_reversed(x):
    for i in reversed():  # here reversed
        x[i] = 0


def k_sorted(x):
    for i in sorted((x[0], x[1])):  # here sorted
        x[0] = i


def k_run_time_dimension(x):
    for d in range(2):
        x[kl.global_id(d)] = 1  # here kl


def k_numba_barrier(x):
    kl.syncthreads()  # here kl


def k_converted(x):
    x[0] = x[0].astype(kl.f64)  # here x[0].


def k_without_module(x):
    x[global_id(0)] = 1  # here global_id  # noqa: F821


def k_numpy(x):
    x[0] = np.zeros(3)  # here np


def k_transposed(x):
    x[0] = x.T[0]  # here x.T


def k_elements(x):
    for value in x:  # here for
        x[0] = value


def k_text(x):
    x[0] = x[0] * "2"  # here x[0] *


def k_draws(x):
    x[0] = np.random.rand()  # here np  # noqa: NPY002


def k_lane_by_name(x):
    v = kl.vector(x[0], x[1])
    x[0] = v.y  # here v


def k_annotated(x):
    i: int = 0  # here int
    x[i] = 1


def k_pair(x):
    x[0] = kl.c64(1, 2).real  # here kl


def k_cuda_thread(x):
    x[kl.thread_id(0)] = 1  # here kl


MISTAKES = [
    (k_draws, "rand cannot be called", "kl.random.uniform(seed, i)"),
    (k_lane_by_name, "vectors have no attribute y", "v[0]"),
    (k_annotated, "not type int", "most need none"),
    (k_pair, "converts one number", "complex(x, y)"),
    (k_cuda_thread, "no attribute thread_id", "write kl.local_id"),
    (k_without_module, "global_id is not defined", "write kl.global_id"),
    (k_numpy, "zeros cannot be called", "kl.private"),
    (k_transposed, "1-d f32 global array x has no attribute T", "of two dimensions T"),
    (k_elements, "not 1-d f32 global array x", "for i in range(x.shape[0])"),
    (k_text, "f32 value * the constant '2': the constant '2' is no number", ""),
    (k_calls_kernel, "other is a kernel", "@portable.function"),
    (k_launches_kernel, "other is a kernel", "@portable.function"),
    (k_yields, "Yield is not", "no generators"),
    (k_word_alone, "kl.barrier is not called", "kl.barrier(...)"),
    (k_word_as_index, "kl.global_id without a call", ""),
    (k_word_compared, "kl.local_id without a call", "call it"),
    (k_word_as_condition, "not kl.sub_group_size without a call", "call it"),
    (k_complex_as_condition, "must be a bool, not complex value", "x != 0"),
    (k_array_as_condition, "must be a bool, not 1-d f32 global array x", "x is None"),
    (k_not_array, "must be a bool, not 1-d f32 global array x", "x is None"),
    (k_arrays_compared, "compared by element", ""),
    (k_array_to_the_power, "array x ** the constant 2: arrays are worked on by element", "x[i, j]"),
    (k_array_negated, "by element", ""),
    (k_array_stored, "cannot be stored", "x[()]"),
    (k_shadowed, "the constant 3 cannot be called", ""),
    (k_sum, "sum cannot be called", "sum an array in a loop"),
    (k_truth_of_array, "bool takes a number, not 1-d f32 global array x", "x != 0"),
    (k_reversed, "reversed expected 1 argument, got 0", ""),
    (k_sorted, "sorted cannot be called", "write it as a loop"),
    (k_run_time_dimension, "constant dimension", "kl.static_range"),
    (k_numba_barrier, "no attribute syncthreads", "kl.barrier"),
    (k_converted, "numbers in kernels have no attribute astype", "kl.f32(x)"),
    (k_misspelt, "no attribute globl_id", "did you mean global_id?"),
    (k_misspelt_name, "valeu is not defined", "did you mean value?"),
    (k_endless, "never ends", "break"),
    (k_whole_array, "by element", ""),
    (k_few, "kl.where(condition, x, y): missing a required argument", ""),
]


@pytest.mark.parametrize(("kernel", "reason", "hint"), MISTAKES)
def test_mistakes_that_are_easily_made(kernel: Callable[..., Any], reason: str, hint: str) -> None:
    error = refused(kernel, F32)
    assert reason in error.reason
    assert hint in error.hint


def test_a_number_where_the_kernel_takes_an_array() -> None:
    error = refused(stores, FLOAT)
    assert "a number of type f32 has no elements" in error.reason


def stores(x):
    x[0] = 1  # here x
