"""What the language refuses: where, why, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import errors
from portable import lang as kl
from portable.lang.frontend.compile import translate
from portable.lang.ir.kernel import Options
from portable.lang.signature import ArraySpec, ParameterSpec, ScalarSpec, Specialisation
from tests.support.capabilities import made_up

FILE = Path(__file__)
F32 = ArraySpec(pt.float32, ("unit",))
I32 = ArraySpec(pt.int32, ("unit",))
U8 = ArraySpec(pt.uint8, ("unit",))
I64 = ArraySpec(pt.int64, ("unit",))
U64 = ArraySpec(pt.uint64, ("unit",))
C64 = ArraySpec(pt.complex64, ("unit",))
BOOL = ArraySpec(pt.bool_, ("unit",))
MATRIX = ArraySpec(pt.float32, ("any", "unit"))
FLOAT = ScalarSpec("float")
INT = ScalarSpec("int")
DEVICE = made_up(sub_group_size=8)


def refused(
    function: Callable[..., Any],
    *specs: ParameterSpec,
    workgroup: tuple[int, int, int] = (64, 1, 1),
    **constants: Any,
) -> errors.KernelError:
    """The refusal of a kernel, once its place is checked: the line that is marked ``# here``."""
    options = Options()
    items = tuple(constants.items())
    wanted = Specialisation(specs, items, workgroup, False, True, options)
    with pytest.raises(errors.KernelError) as caught:
        translate(function, wanted, DEVICE)
    error = caught.value
    assert error.location is not None
    assert error.location.file == str(FILE)
    text = FILE.read_text().splitlines()[error.location.line - 1]
    assert "# here" in text, f"refused at another place: {error}"
    marked = re.search(r"# here (.+?)(?:  #|$)", text)
    if marked:
        start = text.index(marked[1])
        assert error.location.column == start + 1, str(error)
    assert text.rstrip() in str(error)
    return error


def identity(x):
    if x[0] is x[1]:  # here
        x[0] = 1


def contained(x):
    if 1 in (x[0], x[1]):  # here
        x[0] = 1


def endless(x):
    for i in kl.static_range(10**6):
        x[i] = 0  # here


def capability(x):
    x[0] = kl.target.warp_size  # here


def test_what_depends_on_run_time_values() -> None:
    assert "'is' of f32 value" in str(refused(identity, F32))
    assert "'in' takes compile-time constants" in str(refused(contained, F32))


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
    f = lambda y: y  # here lambda  # noqa: E731
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
    (k_def, "FunctionDef is not", "@portable.function"),
    (k_class, "ClassDef is not", "outside"),
    (k_lambda, "Lambda is not", "@portable.function"),
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


def k_step(x):
    y = x[0:4:2]  # here x
    y[0] = 1


def k_store_view(x):
    x[0] = x  # here x


def k_unpack(x):
    a, b = (1, 2, 3)  # here a
    x[0] = a + b


def k_attribute(x):
    x[0] = x.size  # here x.


def k_method(x):
    x[0] = x.sum()  # here x.


def k_python_function(x):
    x[0] = float(x[0])  # here float


def k_math(x):
    x[0] = np.exp(x[0])  # here np


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
    x[0] = kl.vload(x, 0, lanes=3)[0]  # here kl


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
    (k_step, "no step", "one by one"),
    (k_store_view, "cannot be stored", ""),
    (k_unpack, "a tuple of 3 does not unpack to 2", ""),
    (k_attribute, "no attribute size", "shape"),
    (k_method, "no attribute sum", "shape"),
    (k_python_function, "float cannot be called", "kl.f32"),
    (k_math, "exp cannot be called", "kl.exp"),
    (k_word_arguments, "too many positional", ""),
    (k_dimension, "dimension 0, 1 or 2", ""),
    (k_range_float, "range takes integers", ""),
    (k_range_zero, "cannot be zero", ""),
    (k_static_break, "repeated at compile time", "range"),
    (k_shape, "positive constants", "keyword-only"),
    (k_dtype, "a dtype is needed", "kl.f32"),
    (k_lanes, "2, 4, 8 or 16", ""),
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


# -- uniformity ---------------------------------------------------------------------------------


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


# -- matrices, and mistakes that are easily made --------------------------------------------


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


def k_reversed(x):
    for i in reversed(range(4)):  # here reversed
        x[i] = 1


def k_run_time_dimension(x):
    for d in range(2):
        x[kl.global_id(d)] = 1  # here kl


def k_numba_barrier(x):
    kl.syncthreads()  # here kl


def k_converted(x):
    x[0] = x[0].astype(kl.f64)  # here x[0].


MISTAKES = [
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
    (k_array_to_the_power, "array x ** the constant 2: arrays are worked on by element", ""),
    (k_array_negated, "by element", ""),
    (k_array_stored, "cannot be stored", "x[()]"),
    (k_shadowed, "the constant 3 cannot be called", ""),
    (k_sum, "sum cannot be called", "write it as a loop"),
    (k_reversed, "reversed cannot be called", "write it as a loop"),
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
