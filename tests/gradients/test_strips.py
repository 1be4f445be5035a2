"""Adjoints in strips: workgroups that run several of a kernel's and add to copies of their own."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.errors import PortableError
from portable.gradients import kernels
from portable.gradients.adjoint import strips
from portable.gradients.adjoint.assemble import Adjoint
from portable.gradients.adjoint.strips import Turns
from portable.gradients.derived import Derived
from portable.lang.ir import statements as s
from portable.lang.ir.walks import all_statements
from tests.gradients import test_loops as loops
from tests.gradients.field import layer_norm, numbers
from tests.support.differences import assert_gradients, gradients_of, small_strips

ONE_THREAD = ["cpu:native", "simulator:native-cpu"]
"""Devices on which one thread runs a workgroup."""


@pt.kernel
def looked_up(table, at, scale, out):
    i, j = kl.global_id(1), kl.global_id(0)
    out[i, j] = table[at[i], j] ** 2 * scale


@pt.kernel
def chained(table, at, out):
    """Each round needs what the last one left: it is kept for the way back."""
    i = kl.global_id(0)
    v = 0.5
    for k in range(at.shape[1]):
        v = kl.sin(v) * table[at[i, k]]
    out[i] = v


def places(*shape: int, below: int) -> Any:
    return np.random.default_rng(3).integers(0, below, shape).astype(np.int32)


CASES: dict[str, tuple[Any, Any, tuple[Any, ...], dict[str, Any]]] = {
    "ragged, and a number": (
        looked_up,
        ((5, 13), (4, 2)),
        (numbers(6, 5), places(13, below=6), 0.7, np.zeros((13, 5))),
        {},
    ),
    "kept": (chained, (11, 4), (numbers(7), places(11, 6, below=7), np.zeros(11)), {}),
    "meeting": (
        layer_norm,
        (pt.groups(5), 8),
        (numbers(5, 21), numbers(21, seed=1), numbers(21, seed=2), np.zeros((5, 21))),
        {},
    ),
    "tiles": (
        loops.tiles,
        ((8, 8), (4, 4)),
        (numbers(7, 10), numbers(10, 6), np.zeros((7, 6))),
        {"T": 4},
    ),
    "one workgroup": (chained, (3, 4), (numbers(7), places(3, 6, below=7), np.zeros(3)), {}),
}


@pytest.mark.parametrize(
    ("case", "where"),
    [*product(CASES, ONE_THREAD), ("meeting", "simulator:h200"), ("tiles", "simulator:mi300")],
)
def test_beside_differences(case: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, key, args, constants = CASES[case]
    launched = strips_launched(monkeypatch)
    with small_strips():
        assert_gradients(where, kernel, key, *args, count=2, **constants)
    assert launched


def strips_launched(monkeypatch: pytest.MonkeyPatch) -> list[Adjoint]:
    """A list that grows with each adjoint in strips."""
    launched: list[Adjoint] = []
    translated = Derived._translated

    def noted(self: Derived, *given: Any) -> Any:
        made = translated(self, *given)
        if any(x.name.endswith("_copies") for x in made[0].parameters):
            launched.append(made[0])
        return made

    monkeypatch.setattr(Derived, "_translated", noted)
    return launched


@pt.kernel
def perhaps_looked_up(table, at, other, n, x, out):
    i = kl.global_id(0)
    value = x[i] + other[at[i]]
    if n > 0:
        value += table[at[i] % n]
    out[i] = value


@pytest.mark.parametrize("count", [0, 3])
def test_the_gradient_of_an_empty_table(device: Device, count: int) -> None:
    """Alone, and beside one that has elements."""
    table, grown = (device.from_numpy(np.zeros(0, np.float32)) for _ in range(2))
    at = device.from_numpy(np.int32([0, 1, 2, 1, 0]))
    other, added = (device.from_numpy(np.zeros(3, np.float32)) for _ in range(2))
    x, out, dx = (device.from_numpy(np.zeros(5, np.float32)) for _ in range(3))
    seed = device.from_numpy(np.arange(5, dtype=np.float32))
    slopes = grown, None, added if count else None, None, dx, seed
    with small_strips():
        pt.vjp(perhaps_looked_up)[5](table, at, other, 0, x, out, *slopes)
    np.testing.assert_array_equal(device.to_numpy(dx), np.arange(5))
    np.testing.assert_array_equal(device.to_numpy(added), [4, 4, 2] if count else 0)


def test_gradients_that_are_views_are_added_to_one_by_one() -> None:
    table, at, out = numbers(7), places(11, 6, below=7), np.zeros(11)
    whole, view, seed = np.zeros(7), np.zeros((7, 2))[:, 0], numbers(11)
    for into in (whole, view):
        with small_strips():
            pt.vjp(chained)[11, 4](table, at, out, into, None, seed.copy())
    np.testing.assert_allclose(view, whole, rtol=1e-12)


def test_a_large_table_that_is_looked_up_seldom_is_not_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launched = strips_launched(monkeypatch)
    table, at = numbers(100_000), places(64, 6, below=100_000)
    pt.vjp(chained)[64, 8](table, at, np.zeros(64), np.zeros_like(table), None, np.ones(64))
    assert not launched


@pt.kernel
def attracted(x, near, scale, out):
    """Points in space: their own rows and those of neighbours are added to."""
    i = kl.global_id(0)
    v = kl.vload(x, i, 0, lanes=3)
    total = kl.splat(0.0, 3)
    for k in range(near.shape[1]):
        d = kl.vload(x, near[i, k], 0, lanes=3) - v
        total += d * kl.exp(-kl.dot(d, d)) * scale
    for k in kl.static_range(3):
        out[i, k] = total[k] * x[near[i, 0], k]


def test_rows_of_three_are_added_to_as_rows_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = strips_launched(monkeypatch)
    x, near = numbers(13, 3), places(13, 8, below=13)
    out, seeds = np.zeros((13, 3)), (None, None, None, numbers(13, 3, seed=1))
    exact = gradients_of("cpu:native", attracted, 13, (x, near, 0.7, out), seeds, {})
    single = x.astype(np.float32), near, 0.7, out.astype(np.float32)
    with small_strips():
        found = gradients_of("simulator:h200", attracted, 13, single, seeds, {})
    assert found[0].dtype == np.float32
    np.testing.assert_allclose(found[0], exact[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[2], exact[2], rtol=1e-5)
    adds = [y for x in launched for y in all_statements(x.body) if isinstance(y, s.Atomic)]
    assert {int(y.index[1].value) for y in adds} == {0, 1, 2, 3}


@pt.kernel
def attracted_to_the_first(x, weight, near, out):
    """Rows of three that neighbours add to, and one that all do; a stencil beside."""
    i = kl.global_id(0)
    total = weight[i] * weight[i + 1]
    for k in range(near.shape[1]):
        j = near[i, k]
        total += (x[j, 0] * x[j, 1] + x[j, 2]) * x[0, 1]
    out[i] = total


@pytest.mark.parametrize("stencil", [False, True])
def test_a_tapes_new_gradients_hold_what_all_workgroups_add(stencil: bool) -> None:
    """The second time, too, when what belongs to an adjoint is known before its launch."""
    where, near = "simulator:h200", places(13, 8, below=13)
    weight, out = numbers(14, seed=1), np.zeros(13)
    slopes = np.zeros((13, 3)), np.zeros(14), None, np.ones(13)
    pt.vjp(attracted_to_the_first)[13](numbers(13, 3), weight, near, out, *slopes)
    for _ in range(2):
        x, w, to = (a.astype(np.float32) for a in (numbers(13, 3), weight, out))
        with pt.use(where), small_strips():
            with pt.Tape(check=False) as tape:
                attracted_to_the_first[13](x, w, near, to)
            found = tape.gradient(to, (x, w) if stencil else (x,), seed=np.ones(13, np.float32))
        np.testing.assert_allclose(found[0], slopes[0], rtol=1e-5)


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "elements of another row": (Turns, "_number", lambda _: lambda self, x: x.index[-1]),
    "whose elements are a work-item's own": (
        strips, "own_in_workgroup", lambda _: lambda kernel: frozenset(kernel.parameters),
    ),
    "how many workgroups there are": (
        Turns, "_rounded_up", lambda _: lambda self, x, y: self._divided("floordiv", x, y),
    ),
    "where the ndrange ends": (
        strips, "within", lambda old: lambda places, sizes: old(places[:1], sizes[:1]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_rule_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, change = FAULTS[fault]
    monkeypatch.setattr(owner, name, change(getattr(owner, name)))
    kernels._adjoint_of.cache_clear()
    kernel, key, args, _ = CASES["ragged, and a number"]
    with small_strips(), pytest.raises((AssertionError, PortableError)):
        assert_gradients("simulator:native-cpu", kernel, key, *args, count=1)
    kernels._adjoint_of.cache_clear()
