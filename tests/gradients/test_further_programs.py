"""More differentiable programs of Warp's, Taichi's and JAX's documentation, written anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import primitives
from portable.gradients import kernels
from tests.gradients.test_tape import differences, numbers


class Fabric(NamedTuple):
    """What springs of a cloth are like."""

    stiffness: Any
    rest: Any
    drag: Any


@pt.function
def spring(p, q, fabric):
    d = q - p
    length = kl.sqrt(kl.dot(d, d)) + 1e-9
    return d * (fabric.stiffness * (length - fabric.rest) / length)


@pt.kernel
def move_cloth(x, v, new_x, new_v, fabric, dt):
    i, j = kl.global_id(1), kl.global_id(0)
    p = kl.vload(x, i, j, 0, lanes=3)
    f = kl.vector(0.0, -9.8, 0.0)
    for di, dj in ((0, 1), (1, 0), (0, -1), (-1, 0)):
        a, b = i + di, j + dj
        if 0 <= a < x.shape[0] and 0 <= b < x.shape[1]:
            f += spring(p, kl.vload(x, a, b, 0, lanes=3), fabric)
    w = (kl.vload(v, i, j, 0, lanes=3) + f * dt) * fabric.drag
    away = p + w * dt
    r = kl.sqrt(kl.dot(away, away))
    if r < 0.6:
        away = away * (0.6 / r)
    kl.vstore(new_x, i, j, 0, away)
    kl.vstore(new_v, i, j, 0, w)


def cloth(x: Any) -> Any:
    """Warp's cloth: springs between neighbours, and a sphere."""
    v = np.zeros_like(x)
    for _ in range(3):
        new = np.empty_like(x), np.empty_like(v)
        move_cloth[(x.shape[1], x.shape[0]), None](x, v, *new, Fabric(20.0, 0.3, 0.98), 0.05)
        x, v = new
    return primitives.reduce(x, each=kl.square)


@pt.function
def distance(p, radius):
    return kl.minimum(kl.sqrt(kl.dot(p, p)) - radius, p[1] + 1.0)


@pt.kernel
def march(angle, radius, image):
    i, j = kl.global_id(1), kl.global_id(0)
    d = kl.vector(0.25 * i - 0.4 + angle[0], 0.3 * j - 0.4, 1.0)
    d = d / kl.sqrt(kl.dot(d, d))
    t, hit, steps = 0.0, 0.0, 0
    while steps < 30:
        left = distance(kl.vector(d[0] * t, d[1] * t, d[2] * t - 3.0), radius[0])
        if left < 1e-6:
            hit = 1.0
            break
        t += left
        steps += 1
        if t > 20.0:
            break
    image[i, j] = hit * kl.exp(-0.1 * t)


def rays(angle: Any, radius: Any) -> Any:
    """Taichi's ray marching, by a loop that ends where a ray hits."""
    image = np.zeros((4, 3))
    march[(3, 4), None](angle, radius, image)
    return primitives.reduce(image, each=kl.square)


@pt.kernel
def see(points, w, b, v, out, *, WIDTH):
    i = kl.global_id(0)
    code = kl.private(6, points.dtype)
    for d in kl.static_range(3):
        code[2 * d] = kl.sin(3.0 * points[i, d])
        code[2 * d + 1] = kl.cos(3.0 * points[i, d])
    total = kl.cast(0, points.dtype)
    for h in range(WIDTH):
        a = b[h]
        for k in range(6):
            a += w[h, k] * code[k]
        total += v[h] * kl.maximum(a, 0.01 * a)
    out[i] = 1.0 / (1.0 + kl.exp(-total))


def field(points: Any, w: Any, b: Any, v: Any) -> Any:
    """A neural field: waves of a place, and two layers in private memory."""
    out = np.zeros(len(points))
    see[len(points)](points, w, b, v, out, WIDTH=len(b))
    return primitives.reduce(out, each=kl.square)


@pt.function
def slope(s, u):
    return kl.vector(s[1], -9.8 * kl.sin(s[0]) - 0.1 * s[1] + u)


@pt.kernel
def swing(start, controls, dt, end):
    i = kl.global_id(0)
    s = kl.vload(start, i, 0, lanes=2)
    for t in range(controls.shape[1]):
        u = controls[i, t]
        a = slope(s, u)
        b = slope(s + a * (0.5 * dt), u)
        s = s + (a + b) * (0.5 * dt)
    end[i] = kl.dot(s, s)


def pendulum(start: Any, controls: Any) -> Any:
    """Optimal control as JAX has it; a round hands a vector to the next."""
    end = np.zeros(len(start))
    swing[len(start)](start, controls, 0.05, end)
    return primitives.reduce(end)


@pt.kernel
def solve(a, b, x):
    """Cholesky's factors of small matrices in private memory, and both substitutions."""
    i = kl.global_id(0)
    f, y = kl.private((3, 3), a.dtype), kl.private(3, a.dtype)
    for c in kl.static_range(3):
        for r in kl.static_range(c, 3):
            s = a[i, r, c]
            for k in kl.static_range(c):
                s -= f[r, k] * f[c, k]
            f[r, c] = kl.sqrt(s) if r == c else s / f[c, c]
    for r in kl.static_range(3):
        s = b[i, r]
        for k in kl.static_range(r):
            s -= f[r, k] * y[k]
        y[r] = s / f[r, r]
    for q in kl.static_range(3):
        s = y[2 - q]
        for k in kl.static_range(3 - q, 3):
            s -= f[k, 2 - q] * x[i, k]
        x[i, 2 - q] = s / f[2 - q, 2 - q]


def systems(a: Any, b: Any) -> Any:
    """A batch of systems of equations."""
    x = np.zeros_like(b)
    solve[len(b)](a, b, x)
    return primitives.reduce(x, each=kl.square)


@pt.kernel
def press(x, triangles, f):
    t = kl.global_id(0)
    a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
    p = kl.vload(x, a, 0, lanes=3)
    u, v = kl.vload(x, b, 0, lanes=3) - p, kl.vload(x, c, 0, lanes=3) - p
    n = kl.vector(u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0])
    for corner in (a, b, c):
        kl.atomic_add(f, (corner, 0), n / 6.0)


def mesh(x: Any) -> Any:
    """Pressure on a mesh: triangles add vectors to their corners."""
    f = np.zeros_like(x)
    press[4](x, np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]], np.int32), f)
    return primitives.reduce(f, each=kl.square)


@pt.function
def weights(x, n):
    b = kl.cast(x * n - 0.5, kl.i32)
    f = x * n - b
    return b, (0.5 * (1.5 - f) ** 2, 0.75 - (f - 1) ** 2, 0.5 * (f - 0.5) ** 2)


@pt.kernel
def to_grid(x, v, grid, mass):
    p = kl.global_id(0)
    i, wx = weights(x[p, 0], mass.shape[0])
    j, wy = weights(x[p, 1], mass.shape[0])
    for a in kl.static_range(3):
        for b in kl.static_range(3):
            w = wx[a] * wy[b]
            kl.atomic_add(grid, (i + a, j + b, 0), kl.vload(v, p, 0, lanes=2) * w)
            kl.atomic_add(mass, (i + a, j + b), w)


@pt.kernel
def on_grid(grid, mass, out):
    i, j = kl.global_id(1), kl.global_id(0)
    if mass[i, j] > 0:
        out[i, j, 0] = grid[i, j, 0] / mass[i, j]
        out[i, j, 1] = grid[i, j, 1] / mass[i, j] - 0.1
        if i < 2 and out[i, j, 0] < 0:
            out[i, j, 0] = 0.0


@pt.kernel
def to_particles(x, v, grid, new_x, new_v, dt):
    p = kl.global_id(0)
    i, wx = weights(x[p, 0], grid.shape[0])
    j, wy = weights(x[p, 1], grid.shape[0])
    s = kl.vector(0.0, 0.0)
    for a in kl.static_range(3):
        for b in kl.static_range(3):
            s += kl.vload(grid, i + a, j + b, 0, lanes=2) * (wx[a] * wy[b])
    for d in kl.static_range(2):
        new_v[p, d] = s[d]
        new_x[p, d] = x[p, d] + dt * s[d]


def material_points(x: Any, v: Any) -> Any:
    """Taichi's material points, from particles to a grid and back."""
    n = 8
    for _ in range(2):
        grid, mass, out = np.zeros((n, n, 2)), np.zeros((n, n)), np.zeros((n, n, 2))
        new = np.empty_like(x), np.empty_like(v)
        to_grid[len(x)](x, v, grid, mass)
        on_grid[(n, n), None](grid, mass, out)
        to_particles[len(x)](x, v, out, *new, 0.05)
        x, v = new
    return primitives.reduce(x, each=kl.square)


def newton(x: Any) -> Any:
    y = np.ones_like(x)
    for _ in range(20):
        y = y - (y * y - x) / (2 * y)
    return y


implicit = pt.custom_vjp(newton, lambda g, x: (g / (2 * np.sqrt(x)),))


def roots(x: Any) -> Any:
    """JAX's fixed points: the way back by the theorem of implicit functions."""
    return primitives.reduce(implicit(x), each=kl.exp)


@pt.kernel
def flow(t, u, k):
    i = kl.global_id(0)
    n = u.shape[1]
    around = u[t, (i + n - 1) % n] - 2.0 * u[t, i] + u[t, (i + 1) % n]
    u[t + 1, i] = u[t, i] + k[i] * around


def heat(start: Any, k: Any) -> Any:
    """Heat on a ring, all steps in one array."""
    u = np.zeros((6, len(start)))
    primitives.copy(start, u[0])
    for t in range(5):
        flow[len(start)](t, u, k)
    return primitives.reduce(u[5], each=kl.square)


PROGRAMS: dict[Callable[..., Any], tuple[Any, ...]] = {
    cloth: (numbers(2, 2, 3),),
    rays: (np.array([0.1]), np.array([1.0])),
    field: (numbers(2, 3) - 0.5, *(numbers(*s, seed=2) - 0.5 for s in ((2, 6), (2,), (2,)))),
    pendulum: (numbers(2, 2), numbers(2, 4, seed=1) - 0.5),
    systems: (numbers(2, 3, 3) * 0.1 + np.eye(3), numbers(2, 3, seed=1)),
    mesh: (numbers(4, 3),),
    material_points: (0.3 + 0.4 * numbers(3, 2), numbers(3, 2, seed=1) - 0.5),
    roots: (numbers(5) + 1,),
    heat: (numbers(7), 0.2 * numbers(7, seed=1)),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda x: x.__name__)
def test_beside_differences(program: Callable[..., Any]) -> None:
    arguments = PROGRAMS[program]
    with pt.use("cpu:native"):
        given = [x.copy() for x in arguments]
        with pt.Tape() as tape:
            loss = program(*given)
        slopes = tape.gradient(loss, given)
        again = tape.gradient(loss, given)
        wanted = differences(lambda *x: np.asarray(program(*x)).sum(), *arguments)
    for ours, asked_again, theirs in zip(slopes, again, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-7)
        np.testing.assert_allclose(asked_again, ours, rtol=1e-12)


def test_vectors_that_are_kept_by_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    args = numbers(2, 2), numbers(2, 40, seed=1) - 0.5

    def slopes() -> list[Any]:
        with pt.use("cpu:native"), pt.Tape() as tape:
            loss = pendulum(*args)
        return list(tape.gradient(loss, args))

    whole = slopes()
    monkeypatch.setattr(kernels, "_MOST_KEPT", 100)
    kernels._adjoint_of.cache_clear()
    for kept, again in zip(whole, slopes(), strict=True):
        np.testing.assert_allclose(again, kept, rtol=1e-12)
