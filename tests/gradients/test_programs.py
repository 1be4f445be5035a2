"""Differentiable programs as the documentation of others has them, written anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import primitives
from tests.gradients.test_tape import differences, numbers

STEPS = 4


@pt.kernel
def potential(x, u):
    i = kl.global_id(0)
    for j in range(x.shape[0]):
        if i != j:
            d = kl.vector(x[i, 0] - x[j, 0], x[i, 1] - x[j, 1])
            kl.atomic_add(u, 0, -1 / kl.sqrt(d[0] ** 2 + d[1] ** 2 + 1e-3))


def forces(x: Any) -> Any:
    """Taichi's first: forces as the gradient of a potential."""
    u = np.zeros(1)
    potential[len(x)](x, u)
    return u


@pt.kernel
def control(t, x, w, b, act):
    i = kl.global_id(0)
    a = b[i]
    for j in range(x.shape[1]):
        a += w[i, j] * x[t, j, 0]
    act[t, i] = kl.tanh(a)


@pt.kernel
def pull(t, x, act, force):
    i = kl.global_id(0)
    j = (i + 1) % x.shape[1]
    dx, dy = x[t, j, 0] - x[t, i, 0], x[t, j, 1] - x[t, i, 1]
    length = kl.sqrt(dx * dx + dy * dy) + 1e-6
    size = 3.0 * (length - 0.5 * (1 + 0.2 * act[t, i])) / length
    kl.atomic_add(force, (t, i, 0), size * dx)
    kl.atomic_add(force, (t, i, 1), size * dy)
    kl.atomic_sub(force, (t, j, 0), size * dx)
    kl.atomic_sub(force, (t, j, 1), size * dy)


@pt.kernel
def advance(t, dt, x, v, force):
    i, d = kl.global_id(0), kl.global_id(1)
    v[t + 1, i, d] = 0.99 * v[t, i, d] + dt * force[t, i, d]
    x[t + 1, i, d] = x[t, i, d] + dt * v[t + 1, i, d]
    if x[t + 1, i, d] < 0:
        x[t + 1, i, d] = -x[t + 1, i, d]
        v[t + 1, i, d] *= -0.5


def springs(w: Any, b: Any) -> Any:
    """Taichi's mass-spring robot: a network pulls springs; all steps are in one array."""
    n = len(b)
    x, v = np.zeros((STEPS + 1, n, 2)), np.zeros((STEPS + 1, n, 2))
    force, act = np.zeros((STEPS, n, 2)), np.zeros((STEPS, n))
    x[0] = numbers(n, 2, seed=3)
    for t in range(STEPS):
        control[n](t, x, w, b, act)
        pull[n](t, x, act, force)
        advance[(n, 2), None](t, 0.1, x, v, force)
    return primitives.reduce(x[STEPS], each=kl.square)


class Ground(NamedTuple):
    """What particles bounce from."""

    height: float
    stiffness: float
    friction: float


@pt.function
def contact(p, v, ground):
    """The force of the ground."""
    depth = ground.height - p[1]
    if depth <= 0:
        return kl.vector(0.0 * p[0], 0.0 * p[1])
    normal = ground.stiffness * depth
    return kl.vector(-ground.friction * normal * kl.tanh(v[0]), normal)


@pt.kernel
def bounce(t, x, v, dt, ground):
    i = kl.global_id(0)
    p, s = kl.vector(x[t, i, 0], x[t, i, 1]), kl.vector(v[t, i, 0], v[t, i, 1])
    s = s + dt * (contact(p, s, ground) + kl.vector(0.0, -9.81))
    p = p + dt * s
    x[t + 1, i, 0], x[t + 1, i, 1] = p[0], p[1]
    v[t + 1, i, 0], v[t + 1, i, 1] = s[0], s[1]


def bounces(x: Any, v: Any) -> Any:
    """Warp's bouncing particles, whose contact is a function of a struct."""
    xs, vs = np.zeros((9, *x.shape)), np.zeros((9, *v.shape))
    primitives.copy(x, xs[0])
    primitives.copy(v, vs[0])
    for t in range(8):
        bounce[len(x)](t, xs, vs, 0.05, Ground(0.0, 300.0, 0.2))
    return primitives.reduce(xs, each=kl.square)


@pt.kernel
def advect(t, dt, u, v, rho):
    i, j = kl.global_id(1), kl.global_id(0)
    n = rho.shape[1]
    px, py = kl.cast(j, kl.f64) - dt * u[i, j], kl.cast(i, kl.f64) - dt * v[i, j]
    fx, fy = kl.floor(px), kl.floor(py)
    tx, ty = px - fx, py - fy
    x0, y0 = kl.cast(fx, kl.i32) % n, kl.cast(fy, kl.i32) % n
    x1, y1 = (x0 + 1) % n, (y0 + 1) % n
    top = rho[t, y0, x0] * (1 - tx) + rho[t, y0, x1] * tx
    low = rho[t, y1, x0] * (1 - tx) + rho[t, y1, x1] * tx
    rho[t + 1, i, j] = top * (1 - ty) + low * ty


@pt.kernel
def jacobi(k, div, p):
    i, j = kl.global_id(1), kl.global_id(0)
    n = div.shape[0]
    beside = p[k, i, (j + 1) % n] + p[k, i, (j + n - 1) % n]
    p[k + 1, i, j] = 0.25 * (p[k, (i + 1) % n, j] + p[k, (i + n - 1) % n, j] + beside - div[i, j])


def smoke(u: Any, v: Any) -> Any:
    """Warp's fluid: advection along a way back, pressure by Jacobi's method, each in one array."""
    n, rounds = len(u), 3
    p, rho = np.zeros((rounds + 1, n, n)), np.zeros((STEPS + 1, n, n))
    rho[0] = numbers(n, n, seed=5)
    div = primitives.map(lambda q: q[0] - 0.5 * q[1], (u, v))
    for k in range(rounds):
        jacobi[(n, n), None](k, div, p)
    moved = primitives.map(lambda q: q[0] + q[1], (u, p[rounds]))
    for t in range(STEPS):
        advect[(n, n), None](t, 0.5, moved, v, rho)
    return primitives.reduce(rho[STEPS], each=kl.square)


def network(xp: Any, w: Any, b: Any, c: Any) -> Any:
    """JAX's first: the loss of a small classifier, of arrays of a namespace."""
    given, wanted = xp.asarray(numbers(8, 3, seed=7)), xp.asarray(np.arange(8) % 2.0)
    p = 1 / (1 + xp.exp(-(xp.tanh(xp.matmul(given, w)) @ b + c)))
    return -xp.sum(xp.log(p * wanted + (1 - p) * (1 - wanted)))


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (forces, (numbers(6, 2),)),
        (springs, (numbers(3, 3) - 0.5, numbers(3, seed=1) - 0.5)),
        (bounces, (numbers(3, 2), -3 * numbers(3, 2, seed=1))),
        (smoke, (numbers(3, 3) - 0.5, numbers(3, 3, seed=1) - 0.5)),
    ],
)
def test_programs_of_kernels(program: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    with pt.use("cpu:native"):
        given = [x.copy() for x in arguments]
        with pt.Tape() as tape:
            loss = program(*given)
        slopes = tape.gradient(loss, given)
        wanted = differences(lambda *x: np.asarray(program(*x)).sum(), *arguments)
    for ours, theirs in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def test_a_program_of_arrays() -> None:
    xp = pt.xp("cpu:native-arrays")
    arguments = numbers(3, 4), numbers(4, seed=1), numbers(1, seed=2)
    given = [xp.asarray(x) for x in arguments]
    with pt.Tape() as tape:
        loss = network(xp, *given)
    wanted = differences(lambda *x: network(np, *x), *arguments)
    for ours, theirs in zip(tape.gradient(loss, given), wanted, strict=True):
        np.testing.assert_allclose(pt.to_numpy(ours), theirs, rtol=1e-5, atol=1e-8)
