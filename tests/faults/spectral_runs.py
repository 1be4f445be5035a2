"""Small runs of decompositions with vectors in the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np

import portable as pt
from portable.lang.launch.geometry import groups
from portable.linalg.base.tiling import Tiling
from portable.linalg.dense.shapes import DenseShape
from portable.linalg.spectral import reductions
from portable.linalg.spectral.banded import eigen_by_band
from portable.linalg.spectral.divide import bidiagonal_vectors, tridiagonal_vectors
from portable.linalg.spectral.hop_blocks import lead_back_hops
from portable.linalg.spectral.reflections import BLOCK, apply_blocks, reflect, whole_rows
from portable.linalg.spectral.step_kernels import StepShape
from portable.linalg.spectral.symmetric_panels import change_both_sides
from tests.faults.running import close, device, random, run


@run
def vectors_by_rotations() -> None:
    a = random(2, 7, 5)
    a[1, :, 2] = 0
    u, s, vh = pt.linalg.svd(a, full_matrices=True)
    close((u[..., :5] * s[:, None]) @ vh, a)
    close(np.swapaxes(u, 1, 2) @ u, np.broadcast_to(np.eye(7), u.shape))


@run
def eigenvectors_by_rotations() -> None:
    a = random(2, 6, 6)
    a = a + np.swapaxes(a, 1, 2)
    a[1] = np.eye(6)[::-1]
    values, vectors = pt.linalg.eigh(a)
    close(a @ vectors, vectors * values[:, None])


MANY, ALONE = (1, 2), (2, 1)
"""Lanes of vectors, and work-items of a team and teams: of many work-items, and of one."""


def tridiagonal(groups: int, items: tuple[int, int] = MANY) -> None:
    """Panels of 4 reflectors; of several workgroups phases are one launch, and of one."""
    a = random(9, 9)
    a = (a + a.T)[None]
    largest, (lanes, team) = reductions.largest_magnitudes(device(), a, hermitian=True), items
    shape = StepShape(lanes, lanes, rows=2, team=team, teams=team, groups=groups, block=4)
    reduced = reductions.reduced_to_tridiagonal(device(), a, largest, shape)
    d, e = np.asarray(reduced.d)[0], np.asarray(reduced.e)[0, :8]
    found = np.linalg.eigvalsh(np.diag(d) + np.diag(e, 1) + np.diag(e, -1))
    wanted = np.linalg.eigvalsh(a[0])
    close(found / np.max(np.abs(found)), wanted / np.max(np.abs(wanted)))


@run
def tridiagonal_by_one() -> None:
    tridiagonal(1)


@run
def tridiagonal_by_several() -> None:
    tridiagonal(2)


@run
def tridiagonal_alone() -> None:
    tridiagonal(2, ALONE)


def bidiagonal(groups: int) -> None:
    """The same of panels of 4 pairs of reflectors."""
    a = random(11, 9)[None]
    largest = reductions.largest_magnitudes(device(), a, hermitian=False)
    shape = StepShape(lanes=1, across=1, rows=2, team=2, teams=2, groups=groups, block=4)
    reduced = reductions.reduced_to_bidiagonal(device(), a, largest, shape)
    d, e = np.asarray(reduced.d)[0], np.asarray(reduced.e)[0, :8]
    found = np.linalg.svd(np.diag(d) + np.diag(e, 1), compute_uv=False)
    close(found / found[0], np.linalg.svd(a[0], compute_uv=False) / np.linalg.norm(a[0], 2))


@run
def values_by_a_band() -> None:
    a = random(19, 19)
    a, values = (a + a.T)[None], np.empty((1, 19), np.float32)
    eigen_by_band(device(), a, values, None)
    close(values, np.linalg.eigvalsh(a))


@run
def both_sides_changed() -> None:
    z, v, c = random(20, 4), random(20, 4), random(20, 20)
    left, right, c = np.hstack([z, v]), np.hstack([v, z]).T.copy(), c + c.T
    wanted = c - left @ right
    change_both_sides[groups(5, 2), 8](left, right, c, TILING=Tiling(8, 8, 4, 2, units=False))
    close(c, wanted)


@run
def hops_led_back() -> None:
    n, b = 22, 4
    kept, wanted = np.full((n, n + b), np.nan, np.float32), random(n, 3)
    given = wanted.copy()
    hops = [(r, k) for r in range(n - 2) for k in range((n - 3 - r) // b + 1)]
    for r, k in hops:
        kept[r, r + k * b : r + k * b + b] = random(b)
    for r, k in hops[::-1]:
        rows = slice(r + 1 + k * b, min(r + 1 + k * b + b, n))
        v = kept[r, rows.start - 1 : rows.stop - 1]
        wanted[rows] -= np.outer(2 * v / np.sum(v * v), v @ wanted[rows])
    shape = DenseShape(b, 2, 1, 1, (1, 1), 8, 4, 0, climb=False)
    lead_back_hops(device(), kept, given, (n, 3), b, shape)
    close(given, wanted)


@run
def bidiagonal_by_one() -> None:
    bidiagonal(1)


@run
def bidiagonal_by_several() -> None:
    bidiagonal(3)


@run
def bidiagonal_vectors_by_rotations() -> None:
    d, e = random(7), random(6)
    e[2] = 0
    u, s, vh = pt.linalg.bidiagonal_svd(d, e)
    close((u * s) @ vh, np.diag(d) + np.diag(e, 1))
    close(u.T @ u, np.eye(7))


def check_tridiagonal(d: Any, e: Any) -> None:
    blocks, _ = tridiagonal_vectors(device(), d[None], e[None], most=3)
    n = len(d)
    a = np.diag(d) + np.diag(e[:-1], 1) + np.diag(e[:-1], -1)
    q = np.asarray(blocks.right)[0, :n, :n]
    close(a @ q, q * np.asarray(blocks.values)[0, :n])
    close(q.T @ q, np.eye(n))


@run
def merges_of_blocks() -> None:
    check_tridiagonal(random(11), random(11))
    d, e = random(10), random(10)
    blocks, _ = bidiagonal_vectors(device(), d[None], e[None], most=3)
    u, v = (np.asarray(x)[0, :10, :10] for x in (blocks.left, blocks.right))
    close((u * np.asarray(blocks.values)[0, :10]) @ v.T, np.diag(d) + np.diag(e[:-1], 1))


@run
def merges_of_equal_blocks() -> None:
    half, off = random(3), random(2)
    d = np.concatenate([half, half[::-1]])
    e = np.concatenate([off, random(1), off[::-1], np.zeros(1, np.float32)])
    check_tridiagonal(d, e)


@run
def vectors_led_back() -> None:
    rows = whole_rows(device(), 70)
    vectors, x = random(1, 64, rows), random(1, rows, 3)
    vectors, x[:, 70:] = np.triu(vectors), 0
    vectors[:, :, 70:] = 0
    factors = 2 / np.sum(vectors * vectors, axis=2)
    wanted = x[0].astype(float)
    for v, tau in list(zip(vectors[0].astype(float), factors[0], strict=True))[::-1]:
        wanted = wanted - tau * np.outer(v, v @ wanted)
    reflect(device(), vectors, factors, x)
    close(x[0], wanted)


@run
def strips_led_back() -> None:
    v, w, x = random(1, 1, BLOCK, BLOCK), random(1, 1, BLOCK, BLOCK), random(1, BLOCK, 4)
    wanted = x[0] - w[0, 0] @ (v[0, 0] @ x[0])
    apply_blocks[groups(2), 1](v, w, x, 0, LANES=1, VECTORS=2)
    close(x[0] / BLOCK, wanted / BLOCK)
