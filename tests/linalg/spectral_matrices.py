"""Matrices on which decompositions with vectors have to be right, and how right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

_Rng = np.random.Generator
_ROOM: Final = 30
_ORDER: Final = 32
"""Rounding errors that residuals and departures from orthogonality may be, times the norm, of so
many columns; of more, as the root of their number."""


def random(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Random numbers, complex ones with random parts."""
    rng = np.random.default_rng((seed, *shape))
    x: np.ndarray = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def hermitian(x: np.ndarray) -> np.ndarray:
    """A matrix and its conjugate transpose, added."""
    return x + np.swapaxes(x.conj(), -1, -2)


def _orthonormal(n: int, dtype: Any) -> np.ndarray:
    return np.linalg.qr(random((n, n), np.result_type(dtype, np.float64)))[0]


def _with_values(values: np.ndarray, dtype: Any) -> np.ndarray:
    q = _orthonormal(len(values), dtype)
    p = _orthonormal(len(values), dtype)[:, ::-1]
    return ((q * values) @ p.conj().T).astype(dtype)


def _with_eigenvalues(values: np.ndarray, dtype: Any) -> np.ndarray:
    q = _orthonormal(len(values), dtype)
    return hermitian((q * (values / 2)) @ q.conj().T).astype(dtype)


def _graded(n: int, dtype: Any) -> np.ndarray:
    widest = 150 if np.finfo(dtype).eps < 1e-10 else 15
    scale = 10.0 ** np.linspace(-widest, widest, n)
    return (random((n, n), dtype) * np.sqrt(scale)[:, None] * np.sqrt(scale)).astype(dtype)


def _kahan(n: int, dtype: Any) -> np.ndarray:
    s, c = np.sin(1.2), np.cos(1.2)
    return ((s ** np.arange(n))[:, None] * (np.eye(n) - c * np.triu(np.ones((n, n)), 1))).astype(
        dtype
    )


def _lauchli(n: int, dtype: Any) -> np.ndarray:
    return np.vstack([np.ones((1, n)), np.eye(n) * np.sqrt(np.finfo(dtype).eps) / 8]).astype(dtype)


def _wilkinson(n: int, dtype: Any) -> np.ndarray:
    off = np.ones(n - 1)
    return (np.diag(np.abs(np.arange(n) - n // 2)) + np.diag(off, 1) + np.diag(off, -1)).astype(
        dtype
    )


def _glued(n: int, dtype: Any) -> np.ndarray:
    a = np.diag(np.abs(np.arange(n) % 21 - 10).astype(float))
    off = np.where(np.arange(1, n) % 21 == 0, np.sqrt(np.finfo(dtype).eps), 1)
    return (a + np.diag(off, 1) + np.diag(off, -1)).astype(dtype)


def _with_zeros(n: int, dtype: Any) -> np.ndarray:
    a = random((n, n), dtype)
    a[:, n // 3], a[n // 2], a[:, 0], a[0] = 0, 0, 0, 0
    return a


def _clustered(n: int) -> np.ndarray:
    return np.where(np.arange(n) < n // 2, 1, 1 + 1e-9 * np.arange(n))


RECTANGULAR: Final[dict[str, Callable[[int, Any], np.ndarray]]] = {
    "random": lambda n, kind: random((n, n), kind),
    "tall": lambda n, kind: random((2 * n + 3, n), kind),
    "wide": lambda n, kind: random((n, n + n // 2), kind),
    "graded": _graded,
    "clustered": lambda n, kind: _with_values(_clustered(n), kind),
    "of low rank": lambda n, kind: random((n, n // 3), kind) @ random((n // 3, n), kind, 1),
    "Kahan": _kahan,
    "Lauchli": _lauchli,
    "tiny": lambda n, kind: random((n, n), kind) * np.asarray(np.finfo(kind).tiny * 16, kind),
    "huge": lambda n, kind: random((n, n), kind) * np.asarray(np.finfo(kind).max / 64, kind),
    "with zeros": _with_zeros,
    "zero": lambda n, kind: np.zeros((n, n), kind),
    "identity": lambda n, kind: np.eye(n, dtype=kind),
    "bidiagonal": lambda n, kind: np.triu(np.tril(random((n, n), kind), 1)),
}

HERMITIAN: Final[dict[str, Callable[[int, Any], np.ndarray]]] = {
    "random": lambda n, kind: hermitian(random((n, n), kind)),
    "graded": lambda n, kind: hermitian(_graded(n, kind)),
    "clustered": lambda n, kind: _with_eigenvalues(_clustered(n), kind),
    "pairs of signs": lambda n, kind: _with_eigenvalues((-1.0) ** np.arange(n), kind),
    "of low rank": lambda n, kind: hermitian(
        random((n, n // 3), kind) @ random((n // 3, n), kind, 1)
    ),
    "Wilkinson": _wilkinson,
    "glued Wilkinson": _glued,
    "tiny": lambda n, kind: (
        hermitian(random((n, n), kind)) * np.asarray(np.finfo(kind).tiny * 16, kind)
    ),
    "huge": lambda n, kind: (
        hermitian(random((n, n), kind)) * np.asarray(np.finfo(kind).max / 64, kind)
    ),
    "with zeros": lambda n, kind: hermitian(_with_zeros(n, kind)),
    "zero": lambda n, kind: np.zeros((n, n), kind),
    "identity": lambda n, kind: np.eye(n, dtype=kind),
}


def _room(n: int, kind: Any) -> float:
    """What errors may be: less than LAPACK's test ratios allow, 30 where divided by n as well."""
    return float(_ROOM * np.finfo(kind).eps * np.sqrt(max(1, n / _ORDER)))


def _norm(x: np.ndarray) -> float:
    return float(np.linalg.norm(x, 2)) if x.size else 0.0


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _off(q: np.ndarray) -> float:
    """How far columns are from orthonormal."""
    return _norm(q.conj().T @ q - np.eye(q.shape[1]))


def check_svd(a: np.ndarray, u: np.ndarray, s: np.ndarray, vh: np.ndarray) -> None:
    """Holds a decomposition to what it promises."""
    k, room, least = min(a.shape), _room(max(a.shape), s.dtype), np.finfo(s.dtype).tiny
    largest = float(np.max(np.abs(a), initial=0)) or 1.0
    a, u, s, vh = _wide(a) / largest, _wide(u), s.astype(np.float64) / largest, _wide(vh)
    assert np.all(np.diff(s) <= 0)
    assert np.all(s >= 0)
    assert _norm((u[:, :k] * s) @ vh[:k] - a) <= room * max(_norm(a), least)
    assert _off(u) <= room
    assert _off(vh.conj().T) <= room
    reference = np.linalg.svd(a, compute_uv=False)
    assert np.max(np.abs(s - reference), initial=0) <= room * max(_norm(a), least)


def check_eigh(a: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> None:
    """Holds a decomposition to what it promises."""
    room, least = _room(len(values), values.dtype), np.finfo(values.dtype).tiny
    largest = float(np.max(np.abs(a), initial=0)) or 1.0
    a, vectors, values = _wide(a) / largest, _wide(vectors), values.astype(np.float64) / largest
    assert np.all(np.diff(values) >= 0)
    assert _norm(a @ vectors - vectors * values) <= room * max(_norm(a), least)
    assert _off(vectors) <= room
    reference = np.linalg.eigvalsh(a)
    assert np.max(np.abs(values - reference), initial=0) <= 2 * room * max(_norm(a), least)
