"""Rules of the making of adjoints, broken one at a time: each must be found by a kernel's test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.errors import PortableError
from portable.gradients import kernels
from portable.gradients.adjoint import (
    assemble,
    cells,
    hoisting,
    memory,
    rules,
    stack,
    sub_groups,
    sweeps,
    tile_sums,
    workgroup_sums,
)
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from tests.gradients import field
from tests.gradients import test_loops as loops
from tests.gradients import test_neighbours as near
from tests.gradients import test_straight_line as straight
from tests.support.differences import assert_gradients

N = 13
x, y = loops.numbers(N), loops.numbers(N, seed=1)


@pt.kernel
def turning(x, y, out):
    i = kl.global_id(0)
    a, b = x[i], y[i]
    for _ in range(4):
        a, b = a * kl.cos(b), b + a * a * kl.sin(b)
    out[i] = a * b


@pt.kernel
def before(x, out):
    tile = kl.local(4, x.dtype)
    i, lane = kl.global_id(0), kl.local_id(0)
    tile[lane] = x[i]
    kl.barrier()
    a = 0.0
    for k in range(3):
        a += kl.sin(tile[(lane + k) % 4])
    out[i] = a


KERNELS: dict[str, tuple[Any, Any, tuple[Any, ...], dict[str, Any]]] = {
    "saxpy": (straight.saxpy, 16, (1.5, x, y), {}),
    "branches": (straight.branches, 16, (straight.Shape(0.61, 1.7), x, np.zeros(N)), {}),
    "overwrites": (straight.overwrites, N, (x, y), {}),
    "histogram": (straight.neighbours, N, (x * (1 + 1j), np.zeros(N, complex)), {}),
    "logistic": (loops.logistic, N, (2.9, x, 5, np.zeros(N)), {}),
    "newton": (loops.newton, N, (loops.numbers(N, low=1.5, high=9), np.zeros(N)), {}),
    "sums": (loops.products, N, (loops.numbers(N, 7), loops.numbers(7), np.zeros(N)), {}),
    "in_place": (loops.in_place, N, (x, y), {}),
    "two_loops": (loops.two_loops, N, (x, np.zeros(N)), {}),
    "turning": (turning, N, (x, y, np.zeros(N)), {}),
    "before": (before, (8, 4), (loops.numbers(8), np.zeros(8)), {}),
    "ahead": (near.ahead, N, (0.7, loops.numbers(N + 2), loops.numbers(N + 3), np.zeros(N)), {}),
    "particles": (field.particles, 7, field.CASES["particles with lists"].arguments, {}),
    "greatest": (loops.greatest_of_row, 5, (loops.numbers(5, 4), np.zeros(5)), {}),
    "softmax": (loops.softmax, (pt.groups(3), 8), (loops.numbers(3, 8), np.zeros((3, 8))), {}),
    "tiles": (
        loops.tiles,
        ((8, 8), (4, 4)),
        (loops.numbers(7, 10), loops.numbers(10, 6), np.zeros((7, 6))),
        {"T": 4},
    ),
}
Patch = Callable[[Any], None]


def _statements(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Of a function that gives statements: one that gives others."""
    return lambda old: lambda *args, **kwargs: change(old(*args, **kwargs))


def _without_stores(made: Any) -> Any:
    out, adjoint = made
    return [x for x in out if not isinstance(x, s.Store)], adjoint


def _forwards(old: Any) -> Any:
    """The rounds of a loop in the order of the way forwards."""

    def counter(self: Any, x: Any, level: Any, var: Any, number: Any, count: Any) -> Any:
        made = old(self, x, level, var, number, count)
        if not made:
            return made
        start, _, step = map(level.of, x.bounds)
        return (replace(made[0], value=e.Binary("add", start, e.Binary("mul", number, step))),)

    return counter


def _backwards_moves(old: Any) -> Any:
    def found(*args: Any) -> Any:
        return [
            replace(m, moves=tuple(tuple(-by for by in move) for move in m.moves))
            for m in old(*args)
        ]

    return found


FAULTS: dict[str, tuple[Any, str, Callable[[Any], Any], str]] = {
    "a difference's sign": (rules, "neg", lambda _: lambda a: a, "newton"),
    "a product's other operand": (rules, "mul", lambda _: lambda a, b: a, "saxpy"),
    "what a branch takes": (rules, "_select", lambda old: _swapped_select, "branches"),
    "what was overwritten": (memory.Memory, "_take", _statements(_without_stores), "overwrites"),
    "what is cleared too late": (
        sweeps, "_may_meet", lambda _: lambda x, cleared: False, "overwrites",
    ),
    "loads": (memory.Memory, "_add", lambda _: lambda *a: (), "tiles"),
    "sums over neighbours": (assemble, "gatherable", _backwards_moves, "ahead"),
    "the order of rounds": (sweeps.Sweeps, "_counter", _forwards, "two_loops"),
    "the order of what is kept": (
        stack.Stack, "pop", lambda old: lambda self, c, loc: old(self, c[::-1], loc), "turning",
    ),
    "what is kept": (sweeps, "exposed", lambda _: lambda block: [], "logistic"),
    "variables that loops change": (
        cells, "_unchanged", lambda _: lambda body, after: set(after), "logistic",
    ),
    "workgroups' sums": (
        workgroup_sums._Reductions, "_together",
        lambda _: lambda self, given: tuple(map(_by_itself, given)), "saxpy",
    ),
    "what all add up": (
        sub_groups, "_summed", lambda _: lambda value, x, names: ((), value), "softmax",
    ),
    "what rounds add to one element": (
        hoisting, "_unless_nought",
        lambda old: lambda *row: old(*(replace(x, value=rules.zero(x.value.type)) for x in row)),
        "particles",
    ),
    "whose the greatest is": (
        sweeps, "extreme_shares", lambda _: lambda value, final, adjoint: iter([]), "greatest",
    ),
    "whose copy it is": (
        tile_sums, "linear_local_id", lambda _: lambda w, kind: e.WorkItem("local_id", 0, kind),
        "tiles",
    ),
    "who reads an element alone": (
        memory, "own_elements", lambda _: lambda k, d: frozenset(k.parameters), "sums",
    ),
    "what is covered": (
        assemble, "covered", lambda _: lambda p, again: frozenset(again), "before",
    ),
}  # fmt: skip


def _by_itself(x: s.Statement) -> s.Statement:
    return s.Let(x.var, x.value, x.loc) if isinstance(x, s.WorkgroupReduce) else x


def _swapped_select(value: e.Select, adjoint: Any) -> Any:
    nothing = rules.zero(adjoint.type)
    yield value.x, e.Select(value.condition, nothing, adjoint)
    yield value.y, e.Select(value.condition, adjoint, nothing)


@pytest.fixture
def _made_anew() -> Any:
    kernels._adjoint_of.cache_clear()
    yield
    kernels._adjoint_of.cache_clear()


@pytest.mark.usefixtures("_made_anew")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_rule_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, change, case = FAULTS[fault]
    kernel, key, args, constants = KERNELS[case]
    old = getattr(module, name)
    monkeypatch.setattr(module, name, change(old))
    with pytest.raises((AssertionError, PortableError, KeyError, TypeError)):
        assert_gradients("simulator", kernel, key, *args, count=1, **constants)


@pytest.mark.usefixtures("_made_anew")
@pytest.mark.parametrize("case", KERNELS)
def test_nothing_is_found_without_a_fault(case: str) -> None:
    kernel, key, args, constants = KERNELS[case]
    assert_gradients("simulator", kernel, key, *args, count=1, **constants)
