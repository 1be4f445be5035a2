"""Kernels as users of Warp, Taichi and JAX write them, beside differences.

Each has something that others lose: state in structs and private arrays that rounds hand on, rows
that are exchanged, loops over stages that meet, early returns of functions in functions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from tests.gradients.field import Case, numbers
from tests.support.differences import assert_gradients

N = 7


@pt.function
def spline(q):
    if q > 2.0:
        return 0.0
    if q > 1.0:
        t = 2.0 - q
        return 0.25 * t * t * t
    return 1.0 - 1.5 * q * q + 0.75 * q * q * q


@pt.kernel
def sph(x, mass, first, order, h, density):
    """Smoothed particles in cells, with a spline in pieces."""
    i = kl.global_id(0)
    cell = kl.cast(x[i] * 3.0, kl.i32)
    total = 0.0
    for c in range(kl.maximum(cell - 1, 0), kl.minimum(cell + 2, 3)):
        for k in range(first[c], first[c + 1]):
            j = order[k]
            q = kl.abs(x[i] - x[j]) / h
            if q > 2:
                continue
            total += mass[j] * spline(q) / h
    density[i] = total


xs = np.sort(numbers(N))
cells = (xs * 3).astype(int)
first = np.searchsorted(cells, np.arange(4)).astype(np.int32)


@pt.function
def sigmoid(x):
    if x >= 0:
        return 1.0 / (1.0 + kl.exp(-x))
    z = kl.exp(x)
    return z / (1.0 + z)


@pt.kernel
def lstm(w, u, x, out, *, H):
    """Units whose states lie in private arrays, gates in one of each round."""
    b = kl.global_id(0)
    h = kl.private((H,), w.dtype, fill=0)
    c = kl.private((H,), w.dtype, fill=0)
    new = kl.private((H,), w.dtype, fill=0)
    for t in range(x.shape[1]):
        for k in range(H):
            gates = kl.private((4,), w.dtype, fill=0)
            for g in kl.static_range(4):
                s = w[g, k] * x[b, t]
                for j in range(H):
                    s += u[g, k, j] * h[j]
                gates[g] = s
            c[k] = sigmoid(gates[0]) * c[k] + sigmoid(gates[1]) * kl.tanh(gates[2])
            new[k] = sigmoid(gates[3]) * kl.tanh(c[k])
        for k in range(H):
            h[k] = new[k]
    for k in range(H):
        out[b, k] = h[k]


@pt.kernel
def fft8(x, twiddle, out):
    """Stages of a transform in place, in local memory, with turns from a table."""
    row, lane = kl.group_id(0), kl.local_id(0)
    s = kl.local((8,), x.dtype)
    rev = ((lane & 1) << 2) | (lane & 2) | ((lane >> 2) & 1)
    s[lane] = x[row, rev]
    kl.barrier()
    for stage in range(3):
        half = 1 << stage
        pos = lane & (half - 1)
        partner = lane ^ half
        mine, other = s[lane], s[partner]
        w = twiddle[pos * (4 // half)]
        v = mine + w * other if (lane & half) == 0 else other - w * mine
        kl.barrier()
        s[lane] = v
        kl.barrier()
    out[row, lane] = s[lane]


@pt.function
def qmul(a, b):
    return kl.vector(
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


@pt.kernel
def rigid(q0, omega, dt, out):
    """A quaternion that turns for some steps, by vectors."""
    i = kl.global_id(0)
    q = kl.vload(q0, i, 0, lanes=4)
    for t in range(omega.shape[1]):
        w = kl.vector(0.0 * dt, omega[i, t, 0], omega[i, t, 1], omega[i, t, 2])
        q = q + 0.5 * dt * qmul(w, q)
        q = q * kl.rsqrt(kl.dot(q, q))
    kl.vstore(out, i, 0, q)


class Body(NamedTuple):
    x: float
    v: float
    heat: float


@pt.function
def step(b, p, dt):
    if b.heat > 0.5:
        return Body(b.x, 0.9 * b.v, 0.8 * b.heat)
    a = -p[0] * b.x
    if b.x > 0.6:
        a -= p[1] * (b.x - 0.6)
        return Body(b.x + dt * b.v, b.v + dt * a, b.heat + 0.3 * b.v * b.v)
    return Body(b.x + dt * b.v, b.v + dt * a, b.heat)


@pt.kernel
def bodies(p, x, v, out):
    """A struct that functions return early, and rounds hand on."""
    i = kl.global_id(0)
    b = Body(x[i], v[i], 0.1 * x[i])
    for _ in range(15):
        b = step(b, p, 0.15)
    out[i, 0], out[i, 1], out[i, 2] = b.x, b.v, b.heat


@pt.kernel
def chol(a, b, out, *, n):
    """Factor and solve in private arrays, with bounds that rounds decide."""
    i = kl.global_id(0)
    low = kl.private((n, n), a.dtype, fill=0)
    for r in range(n):
        for c in range(r + 1):
            s = a[i, r, c]
            for k in range(c):
                s -= low[r, k] * low[c, k]
            if r == c:
                low[r, c] = kl.sqrt(s)
            else:
                low[r, c] = s / low[c, c]
    y = kl.private((n,), a.dtype, fill=0)
    for r in range(n):
        s = b[i, r]
        for k in range(r):
            s -= low[r, k] * y[k]
        y[r] = s / low[r, r]
    for r in range(n - 1, -1, -1):
        s = y[r]
        for k in range(r + 1, n):
            s -= low[k, r] * y[k]
        y[r] = s / low[r, r]
        out[i, r] = y[r]


q = numbers(3, 4, 4)


@pt.kernel
def lu(a, out, *, n):
    """A determinant by exchanges of rows."""
    i = kl.global_id(0)
    m = kl.private((n, n), a.dtype, fill=0)
    for r in range(n):
        for c in range(n):
            m[r, c] = a[i, r, c]
    sign = 1.0
    for k in range(n):
        p = k
        for r in range(k + 1, n):
            if kl.abs(m[r, k]) > kl.abs(m[p, k]):
                p = r
        if p != k:
            sign = -sign
            for c in range(n):
                t = m[k, c]
                m[k, c] = m[p, c]
                m[p, c] = t
        for r in range(k + 1, n):
            f = m[r, k] / m[k, k]
            for c in range(k + 1, n):
                m[r, c] -= f * m[k, c]
    d = sign
    for k in range(n):
        d *= m[k, k]
    out[i] = d


@pt.kernel
def bitonic(x, out):
    """Numbers in order, by a workgroup."""
    row, lane = kl.group_id(0), kl.local_id(0)
    s = kl.local((8,), x.dtype)
    s[lane] = x[row, lane]
    kl.barrier()
    for k in range(1, 4):
        for j in range(k - 1, -1, -1):
            o = lane ^ (1 << j)
            up = (lane & (1 << k)) == 0
            a, b = s[lane], s[o]
            keep = kl.minimum(a, b) if (lane < o) == up else kl.maximum(a, b)
            kl.barrier()
            s[lane] = keep
            kl.barrier()
    out[row, lane] = s[lane] * (lane + 1)


@pt.kernel
def localhist(x, w, bins):
    """Soft bins in local memory, added up by a workgroup."""
    i, lane = kl.global_id(0), kl.local_id(0)
    h = kl.local((5,), x.dtype)
    for k in range(lane, 5, 4):
        h[k] = 0
    kl.barrier()
    p = x[i] * 4
    k = kl.cast(kl.floor(p), kl.i32)
    kl.atomic_add(h, k, w[i] * (1 - (p - k)), scope="workgroup")
    kl.atomic_add(h, k + 1, w[i] * (p - k), scope="workgroup")
    kl.barrier()
    for k in range(lane, 5, 4):
        kl.atomic_add(bins, k, h[k] * h[k])


@pt.kernel
def collatz(x, out):
    """A path that integers decide, with jumps."""
    i = kl.global_id(0)
    a, b, n = x[i], 1.0, i + 3
    while n != 1:
        if n % 2 == 0:
            n = n // 2
            a = a * a + 0.1
            continue
        n = 3 * n + 1
        b = b * kl.cos(a)
        if n > 40:
            break
    out[i] = a * b


def _cells() -> tuple[Any, ...]:
    x = np.sort(numbers(N))
    first = np.searchsorted((x * 3).astype(int), np.arange(4)).astype(np.int32)
    return x, numbers(N, seed=3), first, np.arange(N, dtype=np.int32), 0.21, np.zeros(N)


def _definite() -> Any:
    q = numbers(3, 4, 4)
    return q @ q.transpose(0, 2, 1) + 2 * np.eye(4)


_TURNS = np.exp(-2j * np.pi * np.arange(4) / 8)
_SIGNALS = numbers(2, 8) + 1j * numbers(2, 8, seed=1)
CASES = {
    "particles in cells": Case(sph, N, _cells()),
    "units of a long short-term memory": Case(
        lstm, 3, (numbers(4, 2, low=-1), numbers(4, 2, 2, seed=1, low=-1),
        numbers(3, 4, seed=2, low=-1), np.zeros((3, 2))), {"H": 2},
    ),
    "a transform in stages": Case(
        fft8, (pt.groups(2), 8), (_SIGNALS, _TURNS, np.zeros((2, 8), complex))
    ),
    "a body that turns": Case(
        rigid, 3, (numbers(3, 4), numbers(3, 5, 3, seed=1), 0.2, np.zeros((3, 4)))
    ),
    "bodies that get warm": Case(
        bodies, N, (numbers(2), numbers(N), numbers(N, seed=1), np.zeros((N, 3)))
    ),
    "a factor in private arrays": Case(
        chol, 3, (_definite(), numbers(3, 4, seed=1), np.zeros((3, 4))), {"n": 4}
    ),
    "rows that are exchanged": Case(
        lu, 3, (numbers(3, 3, 3, seed=4, low=-1), np.zeros(3)), {"n": 3}
    ),
    "numbers in order": Case(bitonic, (pt.groups(2), 8), (numbers(2, 8), np.zeros((2, 8)))),
    "bins of a workgroup": Case(
        localhist, (8, 4), (numbers(8), numbers(8, seed=1), np.zeros(5))
    ),
    "a path of integers": Case(collatz, N, (numbers(N), np.zeros(N))),
}  # fmt: skip


@pytest.mark.parametrize("where", ["simulator", "cpu:native"])
@pytest.mark.parametrize("name", CASES)
def test_beside_differences(name: str, where: str) -> None:
    case = CASES[name]
    assert_gradients(where, case.kernel, case.key, *case.arguments, count=1, **case.constants)
