"""Gradients through loops over the steps of one array, and through arrays that lie in others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import primitives
from portable.backend import Device
from portable.errors import DataError, LaunchError
from portable.gradients import versions
from tests.gradients.test_tape import assert_taped, differences, numbers, scales

pytestmark = pytest.mark.needs_float64
STEPS, N = 5, 7


@pt.kernel
def wave(t, c, u):
    """A step of all, from the two before it."""
    i = kl.global_id(0)
    n = u.shape[1]
    left, right = u[t, (i + n - 1) % n], u[t, (i + 1) % n]
    u[t + 1, i] = 2 * u[t, i] - u[t - 1, i] + c[i] * kl.sin(left - 2 * u[t, i] + right)


@pt.kernel
def onwards(c, x, y):
    i = kl.global_id(0)
    y[i] = x[i] * kl.cos(c[i] * x[i])


@pt.kernel
def in_turn(t, c, u):
    """Of rows that are written again and again."""
    i = kl.global_id(0)
    before = t % 3
    u[(t + 1) % 3, i] += c[i] * u[before, i] ** 2


def test_steps_of_one_array(device: Device) -> None:
    def program(u: Any, c: Any) -> Any:
        for t in range(1, STEPS):
            wave[N](t, c, u)
        return primitives.reduce(u, each=kl.square)

    assert_taped(device, program, numbers(STEPS + 1, N), numbers(N, seed=1))


def test_steps_by_views(device: Device) -> None:
    def program(u: Any, c: Any) -> Any:
        for t in range(STEPS):
            onwards[N](c, u[t], u[t + 1])
        last = primitives.reduce(u[STEPS], each=kl.exp)
        return last if STEPS % 2 else primitives.reduce(u)

    assert_taped(device, program, numbers(STEPS + 1, N), numbers(N, seed=1))


def test_rows_that_are_written_again(device: Device) -> None:
    def program(u: Any, c: Any) -> Any:
        for t in range(2 * STEPS):
            in_turn[N](t, c, u)
        scales[N](u[1], c)
        return primitives.reduce(u, each=kl.square)

    assert_taped(device, program, numbers(3, N) / 4, numbers(N, seed=1))


def test_wholes_and_parts_by_turns(device: Device) -> None:
    def program(u: Any, c: Any) -> Any:
        once = primitives.reduce(u, each=kl.sin)
        onwards[2 * N](
            primitives.copy(u).reshape((-1,)), u[:2].reshape((-1,)), u[2:].reshape((-1,))
        )
        primitives.fill(u[0], 0.5)
        onwards[N](c, u[3], u[1])
        twice = primitives.reduce(u, axis=1, each=kl.square)
        scales[4](u[2][:4], twice)
        return primitives.map(lambda p: p[0] * p[1], (once, primitives.reduce(u)))

    assert_taped(device, program, numbers(4, N), numbers(N, seed=1))


def test_steps_of_array_functions() -> None:
    xp = pt.xp("cpu:native-arrays")
    given = numbers(N)

    def run(x: Any, like: Any) -> Any:
        u = like.zeros((STEPS + 1, N), dtype=like.float64)
        u[0] = x
        for t in range(STEPS):
            u[t + 1] = u[t] + 0.25 * like.sin(u[t]) * u[max(t - 1, 0)]
            u[t + 1] *= u[t]
        return like.sum(u * u)

    x = xp.asarray(given)
    with pt.Tape() as tape:
        loss = run(x, xp)
    wanted = differences(lambda y: run(y, np), given)[0]
    for _ in range(2):
        np.testing.assert_allclose(pt.to_numpy(tape.gradient(loss, x)), wanted, rtol=1e-6)


def test_only_what_is_written_again_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[tuple[int, ...]] = []

    def counted(x: Any, *into: Any) -> Any:
        kept.append(tuple(x.shape))
        return primitives.copy(x, *into)

    monkeypatch.setattr(versions, "copy", counted)
    n, steps = 300, 60
    u, c = np.zeros((steps + 1, n)), numbers(n, seed=1)
    u[:2] = numbers(n)
    with pt.Tape() as tape:
        for t in range(1, steps):
            wave[n](t, c, u)
        loss = primitives.reduce(u, each=kl.square)
    assert kept == []
    before = u.copy()
    tape.gradient(loss, (u, c))
    assert kept == [u.shape]
    assert np.array_equal(u, before)
    with pt.Tape() as tape:
        for t in range(9):
            in_turn[n](t, c, u)
    tape.gradient(u, c, seed=np.ones_like(u))
    assert set(kept[1:]) == {(n,), u.shape}
    assert kept[1:].count(u.shape) == 1


def test_a_step_that_something_else_wrote() -> None:
    u, c = numbers(STEPS + 1, N), numbers(N, seed=1)
    with pt.Tape() as tape:
        for t in range(1, STEPS):
            wave[N](t, c, u)
        loss = primitives.reduce(u[STEPS])
    assert tape.gradient(loss, c).shape == (N,)
    u[2] += 1
    with pytest.raises(DataError, match="by what the tape does not see"):
        tape.gradient(loss, c)


def test_parts_that_are_not_asked_for() -> None:
    u, c = numbers(3, N), numbers(N)
    with pt.Tape() as tape:
        onwards[N](c, u[0], u[1])
        loss = primitives.reduce(u[1])
    slope = tape.gradient(loss, u)
    assert slope[0].all()
    assert not slope[1:].any()
    with pytest.raises(DataError, match="does not depend on source 0"):
        tape.gradient(loss, u[2])


def test_arrays_that_lie_across_each_other() -> None:
    x = numbers(N)
    with pt.Tape() as tape:
        loss = primitives.map(lambda p: p[0] * p[1], (x[:-1], x[1:]))
    wanted = np.r_[x[1:], 0] + np.r_[0, x[:-1]]
    assert np.allclose(tape.gradient(loss, x, seed=np.ones(N - 1)), wanted)
    y = numbers(N, N)
    with pt.Tape():
        primitives.reduce(y)
        with pytest.raises(LaunchError, match="shares memory with one of shape"):
            primitives.reduce(y.T)


def test_rows_of_libraries_that_copy_them() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    u = jax.device_put(numbers(2, N), jax.devices("cpu")[0])
    c, y = numbers(N, seed=1), np.zeros((2, N))
    with pt.Tape() as tape:
        from_row[N](1, c, u, y)
    slopes = tape.gradient(y, u, seed=np.ones((2, N)))
    assert np.allclose(np.asarray(slopes), [np.zeros(N), c])


@pt.kernel
def from_row(t, c, u, y):
    i = kl.global_id(0)
    y[t, i] = c[i] * u[t, i]
