"""Kernels of fields that use gradients, and small arguments: with those of other files sixty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import portable as pt
from portable import lang as kl

N = 7


class Case(NamedTuple):
    """A kernel with its ndrange and arguments; what JAX would write for what it leaves last."""

    kernel: Any
    key: Any
    arguments: tuple[Any, ...]
    constants: dict[str, Any] = {}  # noqa: RUF012 - is only read
    same: Callable[..., Any] | None = None


def numbers(*shape: int, seed: int = 0, low: float = 0.2, high: float = 0.9) -> Any:
    return np.random.default_rng(seed).uniform(low, high, shape)


# -- networks -----------------------------------------------------------------------------------


@pt.kernel
def attention(q, k, v, out):
    """One head: a work-item is a query; the greatest score is taken off on the way."""
    i = kl.global_id(0)
    most, total = -1e30, 0.0
    acc = kl.private((3,), q.dtype, fill=0)
    for j in range(k.shape[0]):
        score = 0.0
        for c in range(q.shape[1]):
            score += q[i, c] * k[j, c]
        greater = kl.maximum(most, score)
        scale, weight = kl.exp(most - greater), kl.exp(score - greater)
        total = total * scale + weight
        for c in kl.static_range(3):
            acc[c] = acc[c] * scale + weight * v[j, c]
        most = greater
    for c in kl.static_range(3):
        out[i, c] = acc[c] / total


def attention_of(np: Any, q: Any, k: Any, v: Any, _: Any) -> Any:
    weights = np.exp(q @ k.T)
    return weights / weights.sum(-1, keepdims=True) @ v


@pt.kernel
def layer_norm(x, gain, shift, out):
    row, lane = kl.group_id(0), kl.local_id(0)
    n = x.shape[1]
    total, squares = 0.0, 0.0
    for k in range(lane, n, kl.local_size(0)):
        total += x[row, k]
    mean = kl.workgroup_reduce(kl.add, total) / n
    for k in range(lane, n, kl.local_size(0)):
        squares += (x[row, k] - mean) ** 2
    scale = kl.rsqrt(kl.workgroup_reduce(kl.add, squares) / n + 1e-5)
    for k in range(lane, n, kl.local_size(0)):
        out[row, k] = (x[row, k] - mean) * scale * gain[k] + shift[k]


def layer_norm_of(np: Any, x: Any, gain: Any, shift: Any, _: Any) -> Any:
    off = x - x.mean(-1, keepdims=True)
    return off / np.sqrt((off**2).mean(-1, keepdims=True) + 1e-5) * gain + shift


@pt.kernel
def row_softmax(x, out):
    row, lane = kl.group_id(0), kl.local_id(0)
    most, total = x[row, lane], 0.0
    for k in range(lane, x.shape[1], kl.local_size(0)):
        most = kl.maximum(most, x[row, k])
    most = kl.workgroup_reduce(kl.maximum, most)
    for k in range(lane, x.shape[1], kl.local_size(0)):
        total += kl.exp(x[row, k] - most)
    total = kl.workgroup_reduce(kl.add, total)
    for k in range(lane, x.shape[1], kl.local_size(0)):
        out[row, k] = kl.exp(x[row, k] - most) / total


def row_softmax_of(np: Any, x: Any, _: Any) -> Any:
    weights = np.exp(x)
    return weights / weights.sum(-1, keepdims=True)


@pt.kernel
def cross_entropy(scores, label, loss):
    i = kl.global_id(0)
    total = 0.0
    for c in range(scores.shape[1]):
        total += kl.exp(scores[i, c])
    kl.atomic_add(loss, 0, kl.log(total) - scores[i, label[i]])


@pt.kernel
def gelu(x, gate, out):
    i = kl.global_id(0)
    v = x[i]
    out[i] = gate[i] * 0.5 * v * (1 + kl.tanh(0.79788456 * (v + 0.044715 * v * v * v)))


@pt.kernel
def embedding(table, at, out):
    i, c = kl.global_id(1), kl.global_id(0)
    out[i, c] = table[at[i], c] * table[at[i], c]


@pt.kernel
def rotary(x, angle, out):
    i, c = kl.global_id(1), kl.global_id(0)
    turn = angle[c] * i
    out[i, 2 * c] = x[i, 2 * c] * kl.cos(turn) - x[i, 2 * c + 1] * kl.sin(turn)
    out[i, 2 * c + 1] = x[i, 2 * c] * kl.sin(turn) + x[i, 2 * c + 1] * kl.cos(turn)


@pt.kernel
def recurrent(w, x, h, out):
    """Steps of a network with one state for each work-item."""
    i = kl.global_id(0)
    state = h[i]
    for t in range(x.shape[1]):
        state = kl.tanh(w[0] * state + w[1] * x[i, t] + w[2])
    out[i] = state


# -- images -------------------------------------------------------------------------------------


@pt.kernel
def convolve(x, f, out):
    i, j = kl.global_id(1), kl.global_id(0)
    total = 0.0
    for p in kl.static_range(3):
        for q in kl.static_range(3):
            total += x[i + p, j + q] * f[p, q]
    out[i, j] = kl.maximum(total, 1.5)


@pt.kernel
def bilinear(image, at, out):
    """Samples between pixels; the places have gradients, too."""
    i = kl.global_id(0)
    y, x = at[i, 0], at[i, 1]
    r, c = kl.cast(kl.floor(y), kl.i32), kl.cast(kl.floor(x), kl.i32)
    fy, fx = y - r, x - c
    top = image[r, c] * (1 - fx) + image[r, c + 1] * fx
    bottom = image[r + 1, c] * (1 - fx) + image[r + 1, c + 1] * fx
    out[i] = top * (1 - fy) + bottom * fy


@pt.kernel
def bilateral(x, width, out):
    i = kl.global_id(0)
    total, weights = 0.0, 0.0
    for d in range(-2, 3):
        j = kl.clip(i + d, 0, x.shape[0] - 1)
        off = (x[j] - x[i]) / width
        w = kl.exp(-off * off - 0.3 * d * d)
        total += w * x[j]
        weights += w
    out[i] = total / weights


@pt.kernel
def march(density, colour, out):
    """Light along a ray, which ends where little comes through."""
    i = kl.global_id(0)
    light, through = 0.0, 1.0
    for t in range(density.shape[1]):
        alpha = 1 - kl.exp(-density[i, t])
        light += through * alpha * colour[i, t]
        through *= 1 - alpha
        if through < 0.2:
            break
    out[i] = light


@pt.kernel
def spheres(centre, radius, ray, out):
    """How far a ray goes to a sphere, by steps as long as the distance allows."""
    i = kl.global_id(0)
    t = 0.0
    for _ in range(30):
        x, y = t * ray[i, 0] - centre[0], t * ray[i, 1] - centre[1]
        gap = kl.sqrt(x * x + y * y) - radius
        t += gap
        if gap < 1e-3:
            break
    out[i] = t


@pt.kernel
def soft_histogram(x, bins):
    i = kl.global_id(0)
    place = x[i] * (bins.shape[0] - 1)
    low = kl.cast(kl.floor(place), kl.i32)
    part = place - low
    kl.atomic_add(bins, low, 1 - part)
    kl.atomic_add(bins, low + 1, part)


# -- mechanics ----------------------------------------------------------------------------------


@pt.kernel
def springs(ends, rest, stiffness, x, force):
    """Springs between points: each adds to the forces on both of its ends."""
    k = kl.global_id(0)
    i, j = ends[k, 0], ends[k, 1]
    dx, dy = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1]
    length = kl.sqrt(dx * dx + dy * dy + 1e-3)
    pull = stiffness[k] * (length - rest[k]) / length
    kl.atomic_sub(force, (i, 0), pull * dx)
    kl.atomic_sub(force, (i, 1), pull * dy)
    kl.atomic_add(force, (j, 0), pull * dx)
    kl.atomic_add(force, (j, 1), pull * dy)


@pt.kernel
def particles(x, neighbours, force):
    i = kl.global_id(0)
    fx, fy = 0.0, 0.0
    for k in range(neighbours.shape[1]):
        j = neighbours[i, k]
        if j >= 0:
            dx, dy = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1]
            push = 1 / (dx * dx + dy * dy + 0.1)
            fx += push * dx
            fy += push * dy
    force[i, 0] = fx
    force[i, 1] = fy


@pt.kernel
def runge_kutta(p, dt, x, out):
    """A pendulum with friction, by four slopes a step."""
    i = kl.global_id(0)
    a, v = x[i, 0], x[i, 1]
    for _ in range(3):
        k1, l1 = v, -p[0] * kl.sin(a) - p[1] * v
        k2, l2 = v + dt / 2 * l1, -p[0] * kl.sin(a + dt / 2 * k1) - p[1] * (v + dt / 2 * l1)
        k3, l3 = v + dt / 2 * l2, -p[0] * kl.sin(a + dt / 2 * k2) - p[1] * (v + dt / 2 * l2)
        k4, l4 = v + dt * l3, -p[0] * kl.sin(a + dt * k3) - p[1] * (v + dt * l3)
        a += dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        v += dt / 6 * (l1 + 2 * l2 + 2 * l3 + l4)
    out[i, 0] = a
    out[i, 1] = v


@pt.kernel
def rotate(q, x, out):
    """Points turned by a quaternion that is made one of length one first."""
    i = kl.global_id(0)
    n = kl.rsqrt(q[0] ** 2 + q[1] ** 2 + q[2] ** 2 + q[3] ** 2)
    w, a, b, c = q[0] * n, q[1] * n, q[2] * n, q[3] * n
    x0, x1, x2 = x[i, 0], x[i, 1], x[i, 2]
    t0, t1, t2 = b * x2 - c * x1, c * x0 - a * x2, a * x1 - b * x0
    out[i, 0] = x0 + 2 * (w * t0 + b * t2 - c * t1)
    out[i, 1] = x1 + 2 * (w * t1 + c * t0 - a * t2)
    out[i, 2] = x2 + 2 * (w * t2 + a * t1 - b * t0)


@pt.kernel
def reaction(c, u, v, u_out, v_out):
    """Gray and Scott's reaction with diffusion on a ring."""
    i = kl.global_id(0)
    n = u.shape[0]
    left, right = (i + n - 1) % n, (i + 1) % n
    uvv = u[i] * v[i] * v[i]
    u_out[i] = u[i] + c * (u[left] + u[right] - 2 * u[i]) - uvv + 0.04 * (1 - u[i])
    v_out[i] = v[i] + c / 2 * (v[left] + v[right] - 2 * v[i]) + uvv - 0.1 * v[i]


@pt.kernel
def upwind(speed, u, out):
    i = kl.global_id(0)
    if 0 < i < u.shape[0] - 1:
        if speed[i] > 0.5:
            out[i] = u[i] - (speed[i] - 0.5) * (u[i] - u[i - 1])
        else:
            out[i] = u[i] - (speed[i] - 0.5) * (u[i + 1] - u[i])
    else:
        out[i] = u[i]


# -- matrices -----------------------------------------------------------------------------------


@pt.kernel
def sparse_product(start, column, value, x, y):
    i = kl.global_id(0)
    total = 0.0
    for k in range(start[i], start[i + 1]):
        total += value[k] * x[column[k]]
    y[i] = total


@pt.kernel
def thomas(low, middle, high, right, x):
    """A tridiagonal system for each work-item, forwards and backwards."""
    i = kl.global_id(0)
    c, d = kl.private((4,), low.dtype, fill=0), kl.private((4,), low.dtype, fill=0)
    c[0], d[0] = high[i, 0] / middle[i, 0], right[i, 0] / middle[i, 0]
    for k in range(1, 4):
        pivot = middle[i, k] - low[i, k] * c[k - 1]
        c[k] = high[i, k] / pivot
        d[k] = (right[i, k] - low[i, k] * d[k - 1]) / pivot
    last = d[3]
    x[i, 3] = last
    for k in range(2, -1, -1):
        last = d[k] - c[k] * last
        x[i, k] = last


@pt.kernel
def cholesky(a, out):
    """The logarithm of a determinant of three rows."""
    i = kl.global_id(0)
    l00 = kl.sqrt(a[i, 0, 0])
    l10, l20 = a[i, 1, 0] / l00, a[i, 2, 0] / l00
    l11 = kl.sqrt(a[i, 1, 1] - l10 * l10)
    l21 = (a[i, 2, 1] - l20 * l10) / l11
    l22 = kl.sqrt(a[i, 2, 2] - l20 * l20 - l21 * l21)
    out[i] = 2 * (kl.log(l00) + kl.log(l11) + kl.log(l22))


@pt.kernel
def butterflies(x, out):
    """A complex Fourier transform of four elements in two steps, through local memory."""
    row, lane = kl.group_id(0), kl.local_id(0)
    tile = kl.local((4,), x.dtype)
    tile[lane] = x[row, lane]
    kl.barrier()
    other = tile[lane ^ 2]
    here = tile[lane] + other if lane < 2 else (other - tile[lane]) * (1.0 if lane == 2 else -1j)
    kl.barrier()
    tile[lane] = here
    kl.barrier()
    out[row, lane] = here + tile[lane ^ 1] if lane % 2 == 0 else tile[lane ^ 1] - here


@pt.kernel
def running_product(x, out):
    """Products of all before, kept in the array that is read again."""
    row = kl.global_id(0)
    out[row, 0] = x[row, 0]
    for k in range(1, x.shape[1]):
        out[row, k] = out[row, k - 1] * x[row, k]


@pt.kernel
def segments(key, x, sums):
    i = kl.global_id(0)
    kl.atomic_add(sums, key[i], x[i] * x[i])


def integers(*shape: int, below: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, below, shape).astype(np.int32)


def _definite() -> Any:
    a = numbers(N, 3, 3)
    return a @ a.transpose(0, 2, 1) + np.eye(3)


_GRID = np.zeros((4, 5))
_NEIGHBOURS = np.where(numbers(N, 3) < 0.4, -1, integers(N, 3, below=N)).astype(np.int32)
CASES = {
    "attention of one head": Case(
        attention, 4, (numbers(4, 3), numbers(5, 3, seed=1), numbers(5, 3, seed=2),
        np.zeros((4, 3))), same=attention_of,
    ),
    "layer normalisation": Case(
        layer_norm, (pt.groups(3), 4), (numbers(3, 10), numbers(10), numbers(10, seed=1),
        np.zeros((3, 10))), same=layer_norm_of,
    ),
    "softmax of rows": Case(
        row_softmax, (pt.groups(3), 4), (numbers(3, 10), np.zeros((3, 10))), same=row_softmax_of
    ),
    "cross entropy": Case(cross_entropy, N, (numbers(N, 4), integers(N, below=4), np.zeros(1))),
    "gelu with a gate": Case(gelu, N, (numbers(N), numbers(N, seed=1), np.zeros(N))),
    "embedding": Case(
        embedding, ((3, 5), None), (numbers(4, 3), integers(5, below=4), np.zeros((5, 3)))
    ),
    "rotary positions": Case(rotary, ((2, 5), None), (numbers(5, 4), numbers(2), np.zeros((5, 4)))),
    "recurrent network": Case(recurrent, N, (numbers(3), numbers(N, 4), numbers(N), np.zeros(N))),
    "convolution": Case(convolve, ((5, 4), None), (numbers(6, 7), numbers(3, 3), _GRID)),
    "bilinear samples": Case(
        bilinear, N, (numbers(6, 6), numbers(N, 2, seed=1, low=0.1, high=4.9), np.zeros(N))
    ),
    "bilateral filter": Case(bilateral, N, (numbers(N), 0.4, np.zeros(N))),
    "ray marching": Case(march, N, (numbers(N, 6), numbers(N, 6, seed=1), np.zeros(N))),
    "sphere tracing": Case(
        spheres, N, (np.array([3.0, 0.1]), 1.0, np.column_stack([np.ones(N), numbers(N) / 9]),
        np.zeros(N)),
    ),
    "soft histogram": Case(soft_histogram, N, (numbers(N), np.zeros(6))),
    "springs": Case(
        springs, 9, (integers(9, 2, below=5), numbers(9), numbers(9, seed=1),
        numbers(5, 2, seed=2), np.zeros((5, 2))),
    ),
    "particles with lists": Case(particles, N, (numbers(N, 2), _NEIGHBOURS, np.zeros((N, 2)))),
    "runge kutta": Case(runge_kutta, N, (numbers(2), 0.1, numbers(N, 2), np.zeros((N, 2)))),
    "quaternion": Case(rotate, N, (numbers(4), numbers(N, 3), np.zeros((N, 3)))),
    "reaction and diffusion": Case(
        reaction, N, (0.2, numbers(N), numbers(N, seed=1), np.zeros(N), np.zeros(N))
    ),
    "upwind advection": Case(upwind, N, (numbers(N), numbers(N, seed=1), np.zeros(N))),
    "sparse product": Case(
        sparse_product, 4, (np.array([0, 2, 2, 5, 9], np.int32), integers(9, below=6),
        numbers(9), numbers(6, seed=1), np.zeros(4)),
    ),
    "tridiagonal systems": Case(
        thomas, 3, (numbers(3, 4), numbers(3, 4, low=3, high=4), numbers(3, 4, seed=1),
        numbers(3, 4, seed=2), np.zeros((3, 4))),
    ),
    "cholesky": Case(cholesky, N, (_definite(), np.zeros(N))),
    "complex butterflies": Case(
        butterflies, (pt.groups(3), 4), (numbers(3, 4) + 1j * numbers(3, 4, seed=1),
        np.zeros((3, 4), complex)),
    ),
    "running product": Case(running_product, 3, (numbers(3, 5), np.zeros((3, 5)))),
    "segments": Case(segments, N, (integers(N, below=3), numbers(N), np.zeros(3))),
}  # fmt: skip
