"""The rest of the sixty: kernels of more fields, beside those of `field`."""

from __future__ import annotations

import numpy as np

import portable as pt
from portable import lang as kl
from tests.gradients.field import Case, N, integers, numbers

# -- networks -----------------------------------------------------------------------------------


@pt.kernel
def rms_norm(x, gain, out):
    row, lane = kl.group_id(0), kl.local_id(0)
    squares = 0.0
    for k in range(lane, x.shape[1], kl.local_size(0)):
        squares += x[row, k] * x[row, k]
    scale = kl.rsqrt(kl.workgroup_reduce(kl.add, squares) / x.shape[1] + 1e-6)
    for k in range(lane, x.shape[1], kl.local_size(0)):
        out[row, k] = x[row, k] * scale * gain[k]


def rms_norm_of(np, x, gain, _):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain


@pt.kernel
def log_softmax(x, out):
    i = kl.global_id(0)
    most = x[i, 0]
    for c in range(1, x.shape[1]):
        most = kl.maximum(most, x[i, c])
    total = 0.0
    for c in range(x.shape[1]):
        total += kl.exp(x[i, c] - most)
    for c in range(x.shape[1]):
        out[i, c] = x[i, c] - most - kl.log(total)


def log_softmax_of(np, x, _):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@pt.kernel
def lstm(w, x, h, c, out):
    """Gates of one cell, steps of a sequence."""
    i = kl.global_id(0)
    hidden, cell = h[i], c[i]
    for t in range(x.shape[1]):
        forget = 1 / (1 + kl.exp(-(w[0] * x[i, t] + w[1] * hidden)))
        put = 1 / (1 + kl.exp(-(w[2] * x[i, t] + w[3] * hidden)))
        cell = forget * cell + put * kl.tanh(w[4] * x[i, t])
        hidden = put * kl.tanh(cell)
    out[i] = hidden + cell


@pt.kernel
def max_pool(x, out):
    i, j = kl.global_id(1), kl.global_id(0)
    most = x[2 * i, 2 * j]
    for p in kl.static_range(2):
        for q in kl.static_range(2):
            most = kl.maximum(most, x[2 * i + p, 2 * j + q])
    out[i, j] = most


def max_pool_of(np, x, _):
    return x.reshape(2, 2, 3, 2).max((1, 3))


@pt.kernel
def depthwise(x, f, out):
    """A convolution of each channel by itself, every other place."""
    c, i = kl.global_id(1), kl.global_id(0)
    total = 0.0
    for k in range(f.shape[1]):
        total += x[c, 2 * i + k] * f[c, k]
    out[c, i] = total


@pt.kernel
def linear_attention(q, k, v, out):
    """Sums that go on from key to key instead of weights."""
    i = kl.global_id(0)
    over, under = 0.0, 1e-3
    for j in range(i + 1):
        weight = 0.0
        for c in range(q.shape[1]):
            weight += (1 + q[i, c]) * (1 + k[j, c])
        over += weight * v[j]
        under += weight
    out[i] = over / under


@pt.kernel
def cosine(x, y, out):
    i = kl.global_id(0)
    xy, xx, yy = 0.0, 0.0, 0.0
    for c in range(x.shape[1]):
        xy += x[i, c] * y[i, c]
        xx += x[i, c] ** 2
        yy += y[i, c] ** 2
    out[i] = xy * kl.rsqrt(xx * yy)


def cosine_of(np, x, y, _):
    return (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))


@pt.kernel
def huber(x, y, loss):
    i = kl.global_id(0)
    off = kl.abs(x[i] - y[i])
    kl.atomic_add(loss, 0, 0.5 * off * off if off < 0.2 else 0.2 * (off - 0.1))


# -- images -------------------------------------------------------------------------------------


@pt.kernel
def sobel(x, out):
    i, j = kl.global_id(1) + 1, kl.global_id(0) + 1
    dx = x[i - 1, j + 1] - x[i - 1, j - 1] + 2 * (x[i, j + 1] - x[i, j - 1])
    dy = x[i + 1, j - 1] - x[i - 1, j - 1] + 2 * (x[i + 1, j] - x[i - 1, j])
    out[i - 1, j - 1] = kl.hypot(dx, dy)


@pt.kernel
def blur(x, width, out):
    """Weights of a Gauss curve whose width has a gradient."""
    i = kl.global_id(0)
    total, weights = 0.0, 0.0
    for d in range(-3, 4):
        w = kl.exp(-d * d / (2 * width * width))
        total += w * x[kl.clip(i + d, 0, x.shape[0] - 1)]
        weights += w
    out[i] = total / weights


@pt.kernel
def project(camera, x, out):
    """Points through a pinhole that is turned and moved; what is behind it stays nothing."""
    i = kl.global_id(0)
    c, s = kl.cos(camera[0]), kl.sin(camera[0])
    a, b, depth = c * x[i, 0] - s * x[i, 2], x[i, 1], s * x[i, 0] + c * x[i, 2] + camera[1]
    if depth > 0.1:
        out[i, 0] = camera[2] * a / depth
        out[i, 1] = camera[2] * b / depth


@pt.kernel
def smooth_union(discs, at, out):
    """A distance to some discs, where one goes over into the next."""
    i = kl.global_id(0)
    total = 0.0
    for k in range(discs.shape[0]):
        gap = kl.hypot(at[i, 0] - discs[k, 0], at[i, 1] - discs[k, 1]) - discs[k, 2]
        total += kl.exp(-8 * gap)
    out[i] = -kl.log(total) / 8


@pt.kernel
def splat(x, colour, image):
    """Points that each leave a spot on the pixels around."""
    i = kl.global_id(0)
    low = kl.cast(kl.floor(x[i]), kl.i32)
    for d in range(-1, 3):
        off = x[i] - (low + d)
        if 0 <= low + d < image.shape[0]:
            kl.atomic_add(image, low + d, colour[i] * kl.exp(-off * off))


@pt.kernel
def tone(x, curve, out):
    """A curve through some points, by lines between them."""
    i = kl.global_id(0)
    k = 0
    while k < curve.shape[0] - 2 and x[i] > curve[k + 1, 0]:
        k += 1
    part = (x[i] - curve[k, 0]) / (curve[k + 1, 0] - curve[k, 0])
    out[i] = curve[k, 1] + part * (curve[k + 1, 1] - curve[k, 1])


# -- mechanics ----------------------------------------------------------------------------------


@pt.kernel
def lennard_jones(start, other, x, force):
    """Neighbour lists of different lengths, and a distance from which on nothing is felt."""
    i = kl.global_id(0)
    total = 0.0
    for k in range(start[i], start[i + 1]):
        d = x[i] - x[other[k]]
        r2 = d * d + 0.5
        if r2 > 1.2:
            continue
        s = 1 / (r2 * r2 * r2)
        total += (2 * s * s - s) * d / r2
    force[i] = total


@pt.kernel
def verlet(k, dt, x, v, x_out, v_out):
    i = kl.global_id(0)
    a = -k[0] * x[i] - k[1] * x[i] ** 3
    ahead = x[i] + dt * v[i] + 0.5 * dt * dt * a
    x_out[i] = ahead
    v_out[i] = v[i] + 0.5 * dt * (a - k[0] * ahead - k[1] * ahead**3)


@pt.kernel
def shallow_water(g, h, m, h_out, m_out):
    """Heights and momenta on a ring, by Lax and Friedrichs."""
    i = kl.global_id(0)
    n = h.shape[0]
    a, b = (i + n - 1) % n, (i + 1) % n
    fa, fb = m[a] * m[a] / h[a] + 0.5 * g * h[a] ** 2, m[b] * m[b] / h[b] + 0.5 * g * h[b] ** 2
    h_out[i] = 0.5 * (h[a] + h[b]) - 0.1 * (m[b] - m[a])
    m_out[i] = 0.5 * (m[a] + m[b]) - 0.1 * (fb - fa)


@pt.kernel
def heat_in_space(c, u, out):
    i, j, k = kl.global_id(2), kl.global_id(1), kl.global_id(0)
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1 and 0 < k < u.shape[2] - 1:
        around = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
        around += u[i, j, k - 1] + u[i, j, k + 1]
        out[i, j, k] = u[i, j, k] + c[i, j, k] * (around - 6 * u[i, j, k])
    else:
        out[i, j, k] = u[i, j, k]


@pt.kernel
def collide(f, relaxation, out):
    """A lattice Boltzmann step of three directions: towards equilibrium, then on."""
    i = kl.global_id(0)
    n = f.shape[1]
    density = f[0, i] + f[1, i] + f[2, i]
    flow = (f[1, i] - f[2, i]) / density
    rest = density * (2 / 3) * (1 - 1.5 * flow * flow)
    right = density / 6 * (1 + 3 * flow + 3 * flow * flow)
    left = density / 6 * (1 - 3 * flow + 3 * flow * flow)
    out[0, i] = f[0, i] + relaxation * (rest - f[0, i])
    out[1, (i + 1) % n] = f[1, i] + relaxation * (right - f[1, i])
    out[2, (i + n - 1) % n] = f[2, i] + relaxation * (left - f[2, i])


@pt.kernel
def density_by_kernels(x, width, out):
    """Smoothed particles: each feels all others near it."""
    i = kl.global_id(0)
    total = 0.0
    for j in range(x.shape[0]):
        d2 = (x[i, 0] - x[j, 0]) ** 2 + (x[i, 1] - x[j, 1]) ** 2
        gap = width * width - d2
        if gap > 0:
            total += gap * gap * gap
    out[i] = total


@pt.kernel
def bounce(x, v, keep, out):
    """A ball that falls and jumps for some time, less high each time."""
    i = kl.global_id(0)
    height, speed = x[i], v[i]
    for _ in range(12):
        speed -= 0.2
        height += 0.2 * speed
        if height < 0:
            height, speed = -height * keep, -speed * keep
    out[i] = height


@pt.kernel
def adaptive(rate, x, out):
    """Steps as long as the slope allows, as many as it takes."""
    i = kl.global_id(0)
    y, t = x[i], 0.0
    while t < 1:
        step = kl.minimum(0.3 / (1 + rate * y), 1 - t)
        y -= step * rate * y * y
        t += step + 1e-9
    out[i] = y


@pt.kernel
def arm(length, angle, out):
    """Where the hand of an arm of some joints is."""
    i = kl.global_id(0)
    x, y, turn = 0.0, 0.0, 0.0
    for k in range(length.shape[0]):
        turn += angle[i, k]
        x += length[k] * kl.cos(turn)
        y += length[k] * kl.sin(turn)
    out[i, 0], out[i, 1] = x, y


# -- matrices, numbers --------------------------------------------------------------------------


@pt.kernel
def product_by_tiles(a, b, c, *, T):
    left, right = kl.local((T, T), a.dtype), kl.local((T, T), b.dtype)
    i, j = kl.global_id(1), kl.global_id(0)
    r, q = kl.local_id(1), kl.local_id(0)
    total = 0.0
    for k in range(0, a.shape[1], T):
        left[r, q], right[r, q] = a[i, k + q], b[k + r, j]
        kl.barrier()
        for t in range(T):
            total += left[r, t] * right[t, q]
        kl.barrier()
    c[i, j] = total


def product_of(_, a, b, __):
    return a @ b


@pt.kernel
def solve_with_pivots(a, b, x):
    """Two equations, the greater of the first column on top."""
    i = kl.global_id(0)
    p, q, r, s, u, v = a[i, 0, 0], a[i, 0, 1], a[i, 1, 0], a[i, 1, 1], b[i, 0], b[i, 1]
    if kl.abs(r) > kl.abs(p):
        p, q, r, s, u, v = r, s, p, q, v, u
    f = r / p
    x[i, 1] = (v - f * u) / (s - f * q)
    x[i, 0] = (u - q * (v - f * u) / (s - f * q)) / p


@pt.kernel
def power_iteration(a, start, out):
    i = kl.global_id(0)
    x, y = start[i, 0], start[i, 1]
    for _ in range(5):
        u, v = a[0, 0] * x + a[0, 1] * y, a[1, 0] * x + a[1, 1] * y
        scale = kl.rsqrt(u * u + v * v)
        x, y = u * scale, v * scale
    out[i] = x * (a[0, 0] * x + a[0, 1] * y) + y * (a[1, 0] * x + a[1, 1] * y)


@pt.kernel
def givens(x, out):
    i = kl.global_id(0)
    a, b, c, d = x[i, 0], x[i, 1], x[i, 2], x[i, 3]
    r = kl.hypot(a, c)
    out[i, 0], out[i, 1], out[i, 2] = r, (a * b + c * d) / r, (a * d - b * c) / r


@pt.kernel
def prefix_sums(x, out):
    row, lane = kl.group_id(0), kl.local_id(0)
    before = kl.workgroup_scan(kl.add, x[row, lane] * x[row, lane], inclusive=False, initial=0.0)
    out[row, lane] = before * x[row, lane]


@pt.kernel
def order(x, out):
    """Four numbers in order, by exchanges."""
    i = kl.global_id(0)
    a, b = kl.minimum(x[i, 0], x[i, 1]), kl.maximum(x[i, 0], x[i, 1])
    c, d = kl.minimum(x[i, 2], x[i, 3]), kl.maximum(x[i, 2], x[i, 3])
    low, high = kl.maximum(a, c), kl.minimum(b, d)
    out[i, 0], out[i, 3] = kl.minimum(a, c), kl.maximum(b, d)
    out[i, 1], out[i, 2] = kl.minimum(low, high), kl.maximum(low, high)


@pt.kernel
def julia(c, z, out):
    """A complex number squared until it gets away."""
    i = kl.global_id(0)
    w = z[i]
    for _ in range(6):
        w = w * w + c[0]
        if kl.real(w) ** 2 + kl.imag(w) ** 2 > 4:
            break
    out[i] = w


@pt.kernel
def filtered(noise, seen, out):
    """Kalman's filter of one number along a series."""
    i = kl.global_id(0)
    at, doubt = seen[i, 0], 1.0
    for t in range(1, seen.shape[1]):
        doubt += noise[0]
        gain = doubt / (doubt + noise[1])
        at += gain * (seen[i, t] - at)
        doubt *= 1 - gain
    out[i] = at + doubt


@pt.function
def below(d):
    """How often a normal number is less, by a hyperbolic tangent."""
    return 0.5 * (1 + kl.tanh(0.79788456 * (d + 0.044715 * d * d * d)))


@pt.kernel
def option(price, strike, rate, spread, out):
    """Black and Scholes."""
    i = kl.global_id(0)
    d = (kl.log(price[i] / strike[i]) + rate + 0.5 * spread * spread) / spread
    out[i] = price[i] * below(d) - strike[i] * kl.exp(-rate) * below(d - spread)


@pt.kernel
def option_by_tree(price, up, out):
    """The same sort of thing by steps up and down, back from the end in a private array."""
    i = kl.global_id(0)
    value = kl.private((4,), price.dtype, fill=0)
    for k in kl.static_range(4):
        value[k] = kl.maximum(price[i] * kl.exp(up * (2 * k - 3)) - 0.5, 0.0)
    for step in range(3, 0, -1):
        for k in range(step):
            value[k] = kl.maximum(0.49 * (value[k] + value[k + 1]), price[i] * up - 0.1)
    out[i] = value[0]


_RING = numbers(3, N)
_DISTANCES = np.column_stack([numbers(N), numbers(N, seed=1), numbers(N, seed=2, low=1, high=2)])
_CURVE = np.array([[0.0, 0.1], [0.4, 0.5], [0.7, 0.6], [1.0, 0.95]])
FURTHER = {
    "root mean squares": Case(
        rms_norm, (pt.groups(3), 4), (numbers(3, 6), numbers(6), np.zeros((3, 6))),
        same=rms_norm_of,
    ),
    "logarithms of softmax": Case(
        log_softmax, N, (numbers(N, 4), np.zeros((N, 4))), same=log_softmax_of
    ),
    "long short-term memory": Case(
        lstm, N, (numbers(5), numbers(N, 3), numbers(N), numbers(N, seed=1), np.zeros(N))
    ),
    "greatest of squares": Case(
        max_pool, ((3, 2), None), (numbers(4, 6), np.zeros((2, 3))), same=max_pool_of
    ),
    "depthwise convolution": Case(
        depthwise, ((3, 2), None), (numbers(2, 8), numbers(2, 3), np.zeros((2, 3)))
    ),
    "linear attention": Case(
        linear_attention, 4, (numbers(4, 3), numbers(4, 3, seed=1), numbers(4), np.zeros(4))
    ),
    "cosines": Case(
        cosine, N, (numbers(N, 3), numbers(N, 3, seed=1), np.zeros(N)), same=cosine_of
    ),
    "huber's loss": Case(huber, N, (numbers(N), numbers(N, seed=1), np.zeros(1))),
    "edges": Case(sobel, ((4, 3), None), (numbers(5, 6), np.zeros((3, 4)))),
    "gaussian blur": Case(blur, N, (numbers(N), 1.3, np.zeros(N))),
    "pinhole camera": Case(
        project, N, (np.array([0.3, 0.5, 1.2]), _DISTANCES, np.zeros((N, 2)))
    ),
    "union of discs": Case(smooth_union, N, (numbers(3, 3), numbers(N, 2), np.zeros(N))),
    "splats": Case(splat, N, (numbers(N, high=4.9), numbers(N, seed=1), np.zeros(6))),
    "tone curve": Case(tone, N, (numbers(N), _CURVE, np.zeros(N))),
    "lennard and jones": Case(
        lennard_jones, 4, (np.array([0, 2, 2, 5, 9], np.int32), integers(9, below=6), numbers(6),
        np.zeros(4)),
    ),
    "verlet": Case(
        verlet, N, (numbers(2), 0.1, numbers(N), numbers(N, seed=1), np.zeros(N), np.zeros(N))
    ),
    "shallow water": Case(
        shallow_water, N, (0.9, numbers(N), numbers(N, seed=1), np.zeros(N), np.zeros(N))
    ),
    "heat in space": Case(
        heat_in_space, ((3, 4, 3), None),
        (numbers(3, 4, 3), numbers(3, 4, 3, seed=1), np.zeros((3, 4, 3))),
    ),
    "lattice boltzmann": Case(collide, N, (_RING, 0.6, np.zeros((3, N)))),
    "smoothed particles": Case(density_by_kernels, N, (numbers(N, 2), 0.4, np.zeros(N))),
    "bouncing balls": Case(bounce, N, (numbers(N), numbers(N, seed=1), 0.8, np.zeros(N))),
    "adaptive steps": Case(adaptive, N, (0.7, numbers(N), np.zeros(N))),
    "robot's arm": Case(arm, N, (numbers(3), numbers(N, 3), np.zeros((N, 2)))),
    "product by tiles": Case(
        product_by_tiles, ((4, 4), (2, 2)),
        (numbers(4, 6), numbers(6, 4, seed=1), np.zeros((4, 4))), {"T": 2}, product_of,
    ),
    "elimination with pivots": Case(
        solve_with_pivots, N, (numbers(N, 2, 2), numbers(N, 2), np.zeros((N, 2)))
    ),
    "power iteration": Case(power_iteration, N, (numbers(2, 2), numbers(N, 2), np.zeros(N))),
    "givens' rotation": Case(givens, N, (numbers(N, 4), np.zeros((N, 3)))),
    "prefix sums": Case(prefix_sums, (pt.groups(3), 4), (numbers(3, 4), np.zeros((3, 4)))),
    "order by exchanges": Case(order, N, (numbers(N, 4), np.zeros((N, 4)))),
    "julia's set": Case(
        julia, N, (np.array([0.2 + 0.3j]), numbers(N) + 1j * numbers(N, seed=1),
        np.zeros(N, complex)),
    ),
    "kalman's filter": Case(filtered, N, (numbers(2), numbers(N, 5), np.zeros(N))),
    "black and scholes": Case(
        option, N, (numbers(N), numbers(N, seed=1), 0.05, 0.3, np.zeros(N))
    ),
    "option by a tree": Case(option_by_tree, N, (numbers(N), 0.2, np.zeros(N))),
}  # fmt: skip
