"""More kernels as users of Warp, Taichi and JAX write them, beside differences.

Contacts with friction, rays that end early, sweeps in place, trees of a workgroup, structs in
structs, positions of positions: what goes on depends on what was worked out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from tests.gradients.field import Case, integers, numbers
from tests.support.differences import assert_gradients

N = 7


class Body(NamedTuple):
    x: float
    v: float
    w: float


@pt.function
def impact(b, mu, e):
    depth = -b.x
    if depth <= 0.0:
        return b
    if b.v < 0.0:
        j = -(1.0 + e) * b.v
        f = kl.minimum(mu * j, kl.abs(b.w) * 0.3)
        return Body(b.x + 0.5 * depth, b.v + j, b.w - kl.copysign(f, b.w))
    return Body(b.x + 0.2 * depth, b.v, 0.99 * b.w)


@pt.kernel
def contact(x, v, w, mu, e, dt, out):
    i = kl.global_id(0)
    b = Body(x[i], v[i], w[i])
    for _ in range(12):
        b = Body(b.x + dt * b.v, b.v - dt * 9.0, b.w)
        b = impact(b, mu, e)
        if kl.abs(b.v) < 1e-3:
            break
    out[i, 0], out[i, 1], out[i, 2] = b


@pt.kernel
def rays(density, direction, step, out):
    i = kl.global_id(0)
    t, seen, colour = 0.05, 1.0, 0.0
    n = 0
    while t < 0.95 and seen > 0.05:
        p = t * direction[i] * (density.shape[0] - 1)
        k = kl.cast(kl.floor(p), kl.i32)
        n += 1
        if n > 30:
            break
        if k >= density.shape[0] - 1:
            t += step
            continue
        f = p - k
        d = (1 - f) * density[k] + f * density[k + 1]
        if d < 0.3:
            t += 0.5 * step / d
            continue
        a = 1 - kl.exp(-4 * d * step)
        colour += seen * a * t
        seen *= 1 - a
        t += step * (0.5 + d)
    out[i] = colour + seen


@pt.kernel
def gauss_seidel(b, omega, x):
    """Red and black sweeps in place, by one workgroup."""
    lane = kl.local_id(0)
    n = x.shape[0]
    for _ in range(3):
        for colour in range(2):
            k = 2 * lane + colour
            if k < n:
                left = x[k - 1] if k > 0 else 0.0
                right = x[k + 1] if k + 1 < n else 0.0
                x[k] = (1 - omega) * x[k] + omega * 0.5 * (left + right + b[k])
            kl.barrier()


@pt.kernel
def tree_softmax(x, out):
    row, lane = kl.group_id(0), kl.local_id(0)
    s = kl.local((8,), x.dtype)
    v = x[row, lane] * 5
    s[lane] = v
    kl.barrier()
    h = 4
    while h > 0:
        if lane < h:
            s[lane] = kl.maximum(s[lane], s[lane + h])
        kl.barrier()
        h //= 2
    top = s[0]
    kl.barrier()
    w = kl.exp(v - top)
    s[lane] = w
    kl.barrier()
    h = 4
    while h > 0:
        if lane < h:
            s[lane] += s[lane + h]
        kl.barrier()
        h //= 2
    out[row, lane] = w / s[0]


@dataclass(frozen=True)
class Quaternion:
    w: float
    x: float
    y: float
    z: float


class State(NamedTuple):
    q: Quaternion
    rate: Quaternion


@pt.function
def times(a, b):
    return Quaternion(
        a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
        a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
        a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
        a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w,
    )


@pt.function
def moved(s, dt):
    d = times(s.q, s.rate)
    w, x, y, z = (
        s.q.w + 0.5 * dt * d.w,
        s.q.x + 0.5 * dt * d.x,
        s.q.y + 0.5 * dt * d.y,
        s.q.z + 0.5 * dt * d.z,
    )
    n = kl.rsqrt(w * w + x * x + y * y + z * z)
    if n > 1.2:
        n = 1.2
    return State(
        Quaternion(w * n, x * n, y * n, z * n),
        Quaternion(0.0, s.rate.x * 0.9, s.rate.y + 0.1 * z, s.rate.z * kl.cos(w)),
    )


@pt.kernel
def spin(q, rate, dt, out):
    i = kl.global_id(0)
    s = State(
        Quaternion(q[i, 0], q[i, 1], q[i, 2], q[i, 3]),
        Quaternion(0.0, rate[i, 0], rate[i, 1], rate[i, 2]),
    )
    for _ in range(6):
        s = moved(s, dt)
    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = s.q.w, s.q.x, s.q.y, s.q.z


@pt.kernel
def select_trap(x, out):
    i = kl.global_id(0)
    v = x[i] - x[0]
    a = kl.where(v == 0, 1.0, kl.sin(v) / v)
    b = kl.where(v > 0, kl.sqrt(v), -v)
    c = kl.log(v) if v > 0 else v * v
    d = kl.where(v > 0, kl.pow(v, 0.3), 2 * v)
    out[i] = a * b + c + d


@pt.kernel
def gathers(b, c, p, x, y, out):
    i = kl.global_id(0)
    k = b[c[i]]
    v = x[k] * x[b[k]]
    y[p[i]] = v * y[p[i]]
    out[p[p[i]]] += v * x[c[k]]


@pt.kernel
def scatter_cells(x, m, grid, rows):
    i = kl.global_id(0)
    p = x[i] * 4
    k = kl.cast(kl.floor(p - 0.5), kl.i32)
    f = p - k
    w = kl.private(3, x.dtype)
    w[0] = 0.5 * (1.5 - f) * (1.5 - f)
    w[1] = 0.75 - (f - 1) * (f - 1)
    w[2] = 0.5 * (f - 0.5) * (f - 0.5)
    for j in range(3):
        at = kl.clip(k + j, 0, grid.shape[0] - 1)
        kl.atomic_add(grid, at, w[j] * m[i])
        kl.atomic_sub(rows, (at, i % 2), w[2 - j] * m[i] * x[i])


@pt.kernel
def ring(x, y, out):
    """A private ring of the last three values, at places that rounds decide."""
    i = kl.global_id(0)
    last = kl.private(3, x.dtype, fill=0)
    for k in range(3):
        last[k] = x[i] * (k + 1)
    for t in range(7):
        new = 0.3 * last[t % 3] * last[(t + 1) % 3] + y[t] * last[(t + 2) % 3]
        last[t % 3] = new
    out[i] = last[0] + last[1] * last[2]


@pt.kernel
def converge(x, out):
    """A loop all leave together."""
    row, lane = kl.group_id(0), kl.local_id(0)
    s = kl.local((8,), x.dtype)
    v = x[row, lane]
    change = 1.0
    rounds = 0
    while change > 0.02 and rounds < 20:
        s[lane] = v
        kl.barrier()
        new = 0.5 * v + 0.25 * (s[(lane + 1) % 8] + s[(lane + 7) % 8]) * s[lane]
        change = kl.workgroup_reduce(kl.maximum, kl.abs(new - v))
        v = new
        rounds += 1
        kl.barrier()
        if rounds % 2 == 0:
            continue
        for k in range(rounds):
            s[lane] = v + 0.1 * k
            kl.barrier()
            v += 0.05 * s[lane ^ 1]
            kl.barrier()
    out[row, lane] = v + rounds


@pt.kernel
def vector_work(x, y, out):
    i = kl.global_id(0)
    a, b = kl.vload(x, i, 0, lanes=4), kl.vload(y, i, 0, lanes=4)
    c = kl.shuffle2(a, b, (0, 5, 2, 7))
    acc = kl.splat(kl.cast(0, x.dtype), 4)
    for _ in range(3):
        m = a > b
        acc = acc + kl.where(m, a * c, b / c)
        a = kl.shuffle2(a, acc, (1, 2, 3, 4))
        b = kl.sqrt(kl.abs(acc - b) + 0.1)
    acc += kl.vector(a[3], b[0], kl.dot(a, b), a[1] * b[2])
    kl.vstore(out, i, 0, kl.maximum(acc, a))


ORDER = np.random.default_rng(0).permutation(N).astype(np.int32)
CASES = {
    "contacts with friction": Case(
        contact, N, (numbers(N), numbers(N, seed=1, low=-1), numbers(N, seed=2, low=-1),
        0.3, 0.6, 0.11, np.zeros((N, 3))),
    ),
    "rays that end early": Case(rays, N, (numbers(6), numbers(N, seed=1), 0.09, np.zeros(N))),
    "sweeps in place": Case(
        gauss_seidel, (pt.groups(1), 4), (numbers(8), 1.2, numbers(8, seed=1))
    ),
    "softmax by trees": Case(tree_softmax, (pt.groups(2), 8), (numbers(2, 8), np.zeros((2, 8)))),
    "structs in structs": Case(
        spin, N, (numbers(N, 4), numbers(N, 3, seed=1), 0.3, np.zeros((N, 4)))
    ),
    "choices beside poles": Case(select_trap, N, (numbers(N), np.zeros(N))),
    "positions of positions": Case(
        gathers, N, (integers(N, below=N), integers(N, below=N, seed=1), ORDER, numbers(N),
        numbers(N, seed=1), numbers(N, seed=2)),
    ),
    "three cells each": Case(
        scatter_cells, N, (numbers(N), numbers(N, seed=1), np.zeros(5), np.zeros((5, 2)))
    ),
    "a ring of the last values": Case(ring, N, (numbers(N), numbers(7, seed=1), np.zeros(N))),
    "rounds until all agree": Case(converge, (pt.groups(2), 8), (numbers(2, 8), np.zeros((2, 8)))),
    "lanes that are exchanged": Case(
        vector_work, N, (numbers(N, 4), numbers(N, 4, seed=1), np.zeros((N, 4)))
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", ["simulator", "cpu:native"])
@pytest.mark.parametrize("name", CASES)
def test_beside_differences(name: str, where: str) -> None:
    case = CASES[name]
    assert_gradients(where, case.kernel, case.key, *case.arguments, count=1, **case.constants)
