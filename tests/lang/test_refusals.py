"""What the language refuses: where, why, and what to write instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import portable as pt
from portable import errors
from portable import lang as kl
from portable.lang.arguments.arguments import Specialisation
from portable.lang.frontend.compile import translate
from portable.lang.ir.kernel import Options
from tests.support.refusals import (
    DEVICE,
    F32,
    refused,
)


def identity(x):
    if x[0] is x[1]:  # here
        x[0] = 1


def contained(x):
    if 1 in x:  # here
        x[0] = 1


def endless(x):
    for i in kl.static_range(10**6):
        x[i] = 0  # here


def capability(x):
    x[0] = kl.target.warp_size  # here


def test_what_depends_on_run_time_values() -> None:
    assert "'is' of f32 value" in str(refused(identity, F32))
    assert "'in' of the constant 1 and 1-d f32 global array x" in str(refused(contained, F32))


def test_rounds_repeated_at_compile_time_have_a_limit() -> None:
    assert "more than 65536 rounds" in str(refused(endless, F32))


def test_capabilities_that_do_not_exist() -> None:
    error = str(refused(capability, F32))
    assert "no capability warp_size; it has dialect, kind" in error
    assert "sub_group_size" in error


# -- statements ---------------------------------------------------------------------------------


def k_with(x):
    with open("f"):  # here with
        pass


def k_try(x):
    try:  # here try
        x[0] = 1
    except ValueError:
        pass


def k_raise(x):
    raise ValueError  # here raise


def k_import(x):
    import os  # here import os  # noqa: F401


def k_def(x):
    def f(): ...  # here def


def k_class(x):
    class C: ...  # here class


def k_lambda(x):
    f = lambda *y: y[0]  # here lambda  # noqa: E731
    x[0] = f(1)


def k_list(x):
    y = [1, 2]  # here [
    x[0] = y[0]


def k_dict(x):
    x[0] = {1: 2}[1]  # here {


def k_comprehension(x):
    x[0] = max(x[i] for i in range(x.shape[0]))  # here range


def k_walrus(x):
    if (n := x[0]) > 0:  # here n
        x[0] = n


def k_fstring(x):
    kl.print(f"{x[0]}")  # here f


def k_delete(x):
    y = 1
    del y  # here del


def k_global(x):
    global FLOAT  # here global
    FLOAT = 1


def k_for_else(x):
    for i in range(3):  # here for
        x[i] = 0
    else:
        x[0] = 1


def k_while_else(x):
    while x[0] > 0:  # here while
        x[0] = 0
    else:
        x[0] = 1


def k_match(x):
    match x.ndim:  # here match
        case 1:
            x[0] = 1


def k_return_value(x):
    return x[0]  # here return


def k_useless(x):
    x[0] + 1  # here x[0]


def k_matmul(x):
    x[0] = x[0] @ x[1]  # here x[0] @


def k_star_star(x):
    kl.fence(**{})  # here kl


STATEMENTS = [
    (k_with, "With is not", "no context managers"),
    (k_try, "Try is not", "no exceptions"),
    (k_raise, "Raise is not", "flag"),
    (k_import, "Import is not", "top of the module"),
    (k_def, "FunctionDef is not", "outside of kernels"),
    (k_class, "ClassDef is not", "outside"),
    (k_lambda, "lambdas in kernels take no", "name what they take"),
    (k_list, "List is not", "kl.private"),
    (k_dict, "Dict is not", "keyword-only"),
    (k_comprehension, "at compile time takes constants, not i32", "for loop over range"),
    (k_walrus, "NamedExpr is not", "statement of its own"),
    (k_fstring, "JoinedStr is not", "pieces one by one"),
    (k_delete, "Delete is not", "no deleting"),
    (k_global, "Global is not", "arguments"),
    (k_for_else, "for ... else", "flag"),
    (k_while_else, "while ... else", "flag"),
    (k_match, "Match is not", "elif"),
    (k_return_value, "return nothing", "array argument"),
    (k_useless, "no effect", "assign"),
    (k_matmul, "@ is not", "kl.mma"),
    (k_star_star, "** is not", "keywords out"),
]


@pytest.mark.parametrize(("kernel", "reason", "hint"), STATEMENTS)
def test_constructs_outside_the_language(
    kernel: Callable[..., Any], reason: str, hint: str
) -> None:
    error = refused(kernel, F32)
    assert reason in error.reason
    assert hint in error.hint


# -- names and types ----------------------------------------------------------------------------

ANYTHING = object()
TABLE = [1, 2]


def k_undefined(x):
    x[0] = nothing_of_the_kind  # here nothing  # noqa: F821


def k_captured(x):
    x[0] = TABLE[0]  # here TABLE


def k_object(x):
    x[0] = ANYTHING  # here ANYTHING


def k_one_side(x):
    if x[0] > 0:
        y = 1
    x[0] = y  # here y


def k_after_loop(x):
    for i in range(3):
        y = x[i]
    x[0] = y  # here y


def k_loop_name(x):
    for i in range(3):
        x[i] = 0
    x[0] = i  # here i


def k_view_in_loop(x):
    row = x[1:3]
    for _ in range(3):
        row[0] = 1  # here row
        row = x[0:2]


def k_becomes_text(x):
    y = 1.0
    if x[0] > 0:
        y = "one"  # here y
    x[0] = y


def k_condition(x):
    if x[0]:  # here if
        x[0] = 1


def k_not_number(x):
    x[0] = not x[0]  # here not x


def k_index_float(x):
    x[x[0]] = 1  # here x[x


def k_too_many(x):
    x[0, 0] = 1  # here x


def k_negative(x):
    x[-1] = 1  # here x


def k_from_the_end(x):
    i = kl.global_id(0)
    x[i] = x[-1 - i]  # here


def k_inverted(x):
    x[~kl.global_id(0)] = 1  # here


def k_step(x):
    y = x[0:4:2]
    y[0] = 1  # here y


def k_store_view(x):
    x[0] = x  # here x


def k_unpack(x):
    a, b = (1, 2, 3)  # here a
    x[0] = a + b


def k_attribute(x):
    x[0] = x.itemsize  # here x.


def k_method(x):
    x[0] = x.sum()  # here x.


def k_python_function(x):
    x[0] = pow(x[0], 2, 5)  # here pow


def k_math(x):
    x[0] = math.gamma(x[0])  # here math


def k_word_arguments(x):
    kl.barrier(1)  # here kl


def k_dimension(x):
    x[0] = kl.global_id(3)  # here kl


def k_range_float(x):
    for i in range(x[0]):  # here range
        x[i] = 0


def k_range_zero(x):
    for i in range(0, 4, 0):  # here range
        x[i] = 0


def k_static_break(x):
    for i in kl.static_range(4):
        if x[i] > 0:
            break  # here break


def k_shape(x):
    tile = kl.local(x.shape[0], kl.f32)  # here kl
    tile[0] = 1


def k_dtype(x):
    tile = kl.private(4, "nonsense")  # here kl
    tile[0] = 1


def k_lanes(x):
    x[0] = kl.vload(x, 0, lanes=5)[0]  # here kl


def k_lane(x):
    v = kl.vload(x, 0, lanes=4)
    x[0] = v[kl.global_id(0)]  # here v


def k_widths(x):
    v = kl.vload(x, 0, lanes=4) + kl.vload(x, 0, lanes=2)  # here kl
    kl.vstore(x, 0, v)


def k_static_assert(x):
    kl.static_assert(x.ndim == 2, "two dimensions")  # here kl


def k_assert(x):
    assert x.ndim == 2, "two dimensions"  # here assert


def k_capability(x):
    x[0] = kl.target.colour  # here kl


def k_mapped_over_list(x):
    for v in x:  # here for
        x[0] = v


def k_division_by_nothing(x):
    x[0] = 1 // 0  # here 1


def k_infinite_recursion(x):
    x[0] = again(x[0])


@pt.function
def again(x):
    return again(x)  # here again


@pt.function
def sometimes(x):
    if x > 0:
        return x


def k_sometimes(x):
    x[0] = sometimes(x[0])


@pt.function
def from_loop(x):
    for i in range(3):
        if x > i:
            return i  # here return
    return x


def k_from_loop(x):
    x[0] = from_loop(x[0])


@pt.function
def from_static_loop(x):
    for i in kl.static_range(3):
        if x > i:
            return i  # here return
    return 9


def k_from_static_loop(x):
    x[0] = from_static_loop(x[0])


def k_two_lambdas(x):
    f = lambda y: y + 1  # noqa: E731
    if x[0] > 0:
        f = lambda y: y + 2  # noqa: E731
    x[0] = f(x[0])  # here f(x[0])


NAMES = [
    (k_undefined, "not defined", ""),
    (k_captured, "TABLE, a list", "keyword-only"),
    (k_object, "ANYTHING, a object", "keyword-only"),
    (k_one_side, "y may be unassigned", "before the branch"),
    (k_after_loop, "y may be unassigned", "before the branch or loop"),
    (k_loop_name, "i may be unassigned here: it belongs to the loop", "assign i to another name"),
    (k_view_in_loop, "row may be unassigned", "before the branch or loop"),
    (k_becomes_text, "cannot become", ""),
    (k_condition, "must be a bool", "compare"),
    (k_not_number, "must be a bool", "compare"),
    (k_index_float, "an integer is needed", "kl.i32"),
    (k_too_many, "2 indices into a 1-d", ""),
    (k_negative, "negative", "do not wrap"),
    (k_from_the_end, "whatever runs, is negative", "by x.shape[0] - 1"),
    (k_inverted, "whatever runs, is negative", "do not wrap"),
    (k_step, "with a step", "one by one"),
    (k_store_view, "cannot be stored", ""),
    (k_unpack, "a tuple of 3 does not unpack to 2", ""),
    (k_attribute, "no attribute itemsize", "shape"),
    (k_method, "no attribute sum", "shape"),
    (k_python_function, "pow cannot be called", "kl.pow"),
    (k_math, "gamma cannot be called", "kl.exp"),
    (k_word_arguments, "too many positional", ""),
    (k_dimension, "dimension 0, 1 or 2", ""),
    (k_range_float, "range takes integers", ""),
    (k_range_zero, "cannot be zero", ""),
    (k_static_break, "repeated at compile time", "range"),
    (k_shape, "positive constants", "keyword-only"),
    (k_dtype, "a dtype is needed", "kl.f32"),
    (k_lanes, "2, 3, 4, 8, 16 or 32", ""),
    (k_lane, "named by a constant", "static_range"),
    (k_widths, "2 and 4 lanes", ""),
    (k_static_assert, "two dimensions", ""),
    (k_assert, "two dimensions", ""),
    (k_capability, "no capability colour", ""),
    (k_mapped_over_list, "runs over range", ""),
    (k_division_by_nothing, "not possible", ""),
    (k_infinite_recursion, "calls itself", "inlined"),
    (k_from_loop, "return inside a run-time loop", "break"),
    (k_from_static_loop, "return out of a loop", "after the loop"),
    (k_two_lambdas, "makes f the lambda of line ", "before the branch"),
]


@pytest.mark.parametrize(("kernel", "reason", "hint"), NAMES)
def test_names_and_shapes(kernel: Callable[..., Any], reason: str, hint: str) -> None:
    error = refused(kernel, F32)
    assert reason in error.reason
    assert hint in error.hint


def test_a_value_on_some_paths_only() -> None:
    wanted = Specialisation((F32,), (), (1, 1, 1), False, True, Options())
    with pytest.raises(errors.KernelError, match="some paths only"):
        translate(k_sometimes, wanted, DEVICE)
