"""What names stand for, and keep: when their sources change, in loops, by operators of structs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import errors
from portable import lang as kl
from portable.backend import Device
from portable.lang.frontend.values import rebuilt
from tests.support.launch import run


@pt.kernel
def rebound(x, out, n):
    row = x[0]
    out[0] = row[1]
    for k in range(n):
        row = x[k]
        out[1] += row[0]
    width: kl.i64 = 1
    for _ in range(40):
        width *= 2
    out[2] = kl.i32(width >> 38)
    i = 5
    for i in range(n):
        out[3] += i
    wide = 1
    if n > 1:
        wide = 5_000_000_000
    out[4] = kl.i32(wide // 1_000_000_000)
    number = 1
    if n > 1:
        number = 0.5
    out[5] = kl.i32(4 * number)


def test_names_bound_again(device: Device) -> None:
    x = np.arange(6, dtype=np.int32).reshape(3, 2)
    _, found = run(device, rebound[1, 1], x, np.zeros(6, np.int32), 3)
    np.testing.assert_array_equal(found, [1, 6, 4, 3, 5, 2])


@pt.kernel
def pairs_that_their_loop_changes(x, out):
    a = x[0]
    b = 0
    if a > 0:
        a += 1
        for item in (b % 7, a + 5, x[1]):
            a, b = b, item
            x[1] = 50
        for n, item in enumerate((a, 2 * a)):
            a += n + item
    out[0] = a
    out[1] = b


def test_items_of_a_loop_are_what_they_were_before_it(device: Device) -> None:
    """Although its rounds assign the variables and elements of which they are made."""
    found = run(device, pairs_that_their_loop_changes[1, 1], np.array([9, 8]), np.zeros(2, int))[1]
    a, b = 15, 8  # what (0, 15, 8) leaves of (10, 0), taken in turn
    assert list(found) == [a + (0 + a) + (1 + 2 * a), b]


class Span(NamedTuple):
    """A struct whose methods, kept under a name, keep its numbers."""

    low: kl.i32
    high: kl.i32

    @pt.function
    def width(self):
        return self.high - self.low

    @pt.function
    def __getitem__(self, part):
        return part


@pt.kernel
def names_kept_while_numbers_change(x, out):
    n = x[0]
    span = Span(x[0], 10 * x[0])
    if n > 0:
        n += 1
        span = Span(n, 5 * n)
    rounds = range(0, n)
    head = x[:n]
    width = span.width
    other = span._replace
    part = span[1:n]
    if n > 0:
        n = 0
        span = Span(0, 0)
    for i in rounds:
        out[0] += i + 1
    out[1] = kl.i32(head.shape[0])
    out[2] = width()
    out[3] = other(low=1).high
    out[4] = kl.i32(x[part].shape[0])
    out[5] = n + span.width()


def test_ranges_parts_and_methods_keep_the_numbers_they_were_made_of(device: Device) -> None:
    x = np.array([2, 0, 0, 0], np.int32)
    found = run(device, names_kept_while_numbers_change[1, 1], x, np.zeros(6, np.int32))[1]
    np.testing.assert_array_equal(found, [1 + 2 + 3, 3, 12, 15, 2, 0])


def test_what_no_copy_is_made_of_is_an_error() -> None:
    class Unknown:
        pass

    Unknown.__module__ = "portable.lang.frontend.values"
    with pytest.raises(TypeError, match="Unknown has parts that may change"):
        rebuilt(lambda part, name: part, (1, Unknown()), "x")


@pt.kernel
def read_in_the_next_round(x, out):
    i = 100
    for j in range(x[0]):
        out[j] = i
        for i in kl.static_range(3):
            out[5] += i


@pt.kernel
def read_after_a_loop_at_run_time(x, out):
    i, j = 100, 0
    while j < x[0]:
        out[j] = i
        j += 1
        for i in range(x[1]):
            out[5] += i


@pt.kernel
def read_after_a_named_range(x, out):
    i = 100
    rounds = range(x[1])
    for j in range(x[0]):
        out[j] = i
        for i in rounds:
            out[5] += i


@pytest.mark.parametrize(
    "kernel", [read_in_the_next_round, read_after_a_loop_at_run_time, read_after_a_named_range]
)
def test_names_of_inner_loops_have_no_value_when_the_outer_ones_begin(kernel: Any) -> None:
    """Python's would be what the inner loop left; what stood there before would be wrong."""
    with pytest.raises(errors.KernelError, match="give the inner loop over i another name"):
        run(pt.device("simulator"), kernel[1, 1], np.array([3, 2]), np.zeros(6, int))


@pt.function
def done(out):
    out[0] += 1
    return False


@pt.kernel
def loops_that_never_run(x, out):
    while done(out):
        out[1] += 1
    i = 100
    if x[0] > 0:
        for i in (7, 8):
            out[2] += i
    out[3] = i


def test_what_a_condition_does_is_done_where_it_is_false_at_once(device: Device) -> None:
    found = run(device, loops_that_never_run[1, 1], np.array([3]), np.zeros(4, int))[1]
    assert list(found) == [1, 0, 15, 8]


@pt.kernel
def constants_that_decide(out, *, TILE):
    out[0] = TILE or 16
    out[1] = 5 and 3
    out[2] = kl.i32(0 or out[0] > 99)
    out[3] = kl.i32(any((False, out[0] > 2, out[0] > 99)))
    out[4] = kl.i32(all((1, out[0] > 2, out[0] > 99)))
    out[5] = kl.i32(any((out[0] > 99, 7)))
    out[6] = kl.i32(all((out[0] > 2, out[0] > 3)))


def test_and_or_any_and_all_give_what_python_gives(device: Device) -> None:
    zeros = np.zeros(7, np.int32)
    for tile, size in ((0, 16), (4, 4)):
        found = run(device, constants_that_decide[1, 1], zeros, TILE=tile)[0]
        assert list(found) == [size, 3, 0, 1, 0, 1, 1]


@dataclass(frozen=True)
class Version:
    major: kl.i32
    minor: kl.i32

    @pt.function
    def __eq__(self, other):
        return self.major == other.major

    @pt.function
    def __lt__(self, other):
        return self.major < other.major

    @pt.function
    def __iadd__(self, other):
        return Version(self.major + 10 * other.major, self.minor)

    @pt.function
    def __abs__(self):
        return self.major


class Letters(NamedTuple):
    first: kl.i32
    second: kl.i32

    @pt.function
    def __eq__(self, other):
        return self.first == other.first

    @pt.function
    def __len__(self):
        return 7

    @pt.function
    def __getitem__(self, index):
        return self.first + index


@dataclass(frozen=True, eq=False)
class Lone:
    value: kl.i32


@pt.kernel
def compares(x, out):
    old, new = Version(x[0], 1), Version(x[0], 2)
    out[0] = kl.i32(old == new) + 2 * kl.i32(old != new)
    out[1] = kl.i32(old < Version(x[1], 0)) + 2 * kl.i32(old > Version(x[1], 0))
    old += new
    out[2] = abs(old)
    one, other = Letters(x[0], 1), Letters(x[0], 2)
    out[3] = kl.i32(one == other) + 2 * kl.i32(one != other)  # a tuple's != is its own
    out[4] = len(one) + 10 * one[5]


def test_operators_of_structs_are_the_methods_of_their_classes(device: Device) -> None:
    found = run(device, compares[1, 1], np.array([3, 4], np.int32), np.zeros(5, np.int32))[1]
    assert list(found) == [1, 1, 33, 3, 87]


@pt.kernel
def lone(x, out):
    out[0] = kl.i32(Lone(x[0]) == Lone(x[1]))


def test_comparisons_of_objects_are_refused() -> None:
    with pytest.raises(errors.KernelError, match="objects"):
        run(pt.device("simulator"), lone[1, 1], np.arange(2), np.zeros(1, int))


@pt.kernel
def over_products(x, out, *, N):
    table = kl.private((2, 3), kl.i32)
    for i, j in product(kl.static_range(2), kl.static_range(3)):
        table[i, j] = i * j + 1
    for i, j in product(range(x[0]), range(1, x[1])):
        if i == j:
            continue
        out[0] += 10 * i + j
    for n, (a, b) in product(range(x[0]), zip((1, 2), (3, 4), strict=True)):
        out[1] += n * a * b
    for r in range(x[0]):
        for i, j in product(kl.static_range(2), kl.static_range(3)):
            out[2] += table[i, j] * r
    out[3] = sum(i * j for i, j in product(range(N), (1, 2)))
    for i, j in product(range(x[0]), range(x[1])):
        out[4] += 10 * i + j
        i += 7
    for i, (a, b), j in product(range(x[0]), ((1, 2), (3, 4)), (1, 2)):
        out[5] += (10 * i + a) * j
        i = a = b
        out[5] += i + a


def test_loops_over_products_are_within_each_other(device: Device) -> None:
    found = run(device, over_products[1, 1], np.array([4, 5]), np.zeros(6, int), N=3)[1]
    pairs = product(range(2), range(3))
    threes = product(range(4), ((1, 2), (3, 4)), (1, 2))
    assert list(found) == [
        sum(10 * i + j for i, j in product(range(4), range(1, 5)) if i != j),
        6 * (1 * 3 + 2 * 4),
        6 * sum(i * j + 1 for i, j in pairs),
        9,
        sum(10 * i + j for i, j in product(range(4), range(5))),
        sum((10 * i + a) * j + 2 * b for i, (a, b), j in threes),
    ]


@pt.kernel
def broken(x, out):
    for i, j in product(range(x[0]), range(x[1])):
        if i < j:
            break
        out[0] += 1


@pt.kernel
def one_name(x, out):
    for pair in product(range(x[0]), range(x[1])):
        out[0] += pair[0]


@pytest.mark.parametrize(
    ("kernel", "reason"), [(broken, "write the loops out"), (one_name, "of 2")]
)
def test_what_products_do_not_have_is_told(kernel: Any, reason: str) -> None:
    with pytest.raises(errors.KernelError, match=reason):
        run(pt.device("simulator"), kernel[1, 1], np.array([1, 2]), np.zeros(1, int))
