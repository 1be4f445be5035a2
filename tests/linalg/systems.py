"""Matrices that factorisations are tried on, and how errors are judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

import portable
from portable.backend import Device

DTYPES = ["float16", "float32", "float64", "complex64", "complex128"]

_Case = TypeVar("_Case")


def crossed(cases: Sequence[_Case], typical: _Case) -> list[tuple[_Case, str]]:
    """Each case with a real and a complex dtype of other widths, a typical one with all dtypes."""
    some = [(case, dtype) for case in cases for dtype in ("float32", "complex128")]
    return some + [(typical, dtype) for dtype in DTYPES if (typical, dtype) not in some]


def random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Normally distributed numbers."""
    rng = np.random.default_rng([seed, *shape])
    x = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def adjoint(x: np.ndarray) -> np.ndarray:
    """Conjugate transposes."""
    return x.conj().swapaxes(-1, -2)


def on(device: Device, function: Any, *arrays: np.ndarray, **options: Any) -> Any:
    """What a function gives for arrays on a device, as NumPy's; they are left as they are.

    Of results without some part, the rest.
    """
    with portable.use(device.name):
        given = [device.from_numpy(x) for x in arrays]
        result = function(*given, **options)
        for before, after in zip(arrays, given, strict=True):
            np.testing.assert_array_equal(device.to_numpy(after), before)
    if isinstance(result, tuple):
        parts = [x for x in result if x is not None]
        assert all(device.owns(x) for x in parts)
        return tuple(device.to_numpy(x) for x in parts)
    assert device.owns(result)
    return device.to_numpy(result)


def ratio(difference: np.ndarray, *factors: np.ndarray) -> float:
    """An error in units of roundoff of the product of norms: the largest of a batch."""
    if difference.size == 0:
        return 0.0
    wide = np.complex128 if np.iscomplexobj(difference) else np.float64
    eps = np.finfo(difference.dtype).eps
    size = np.linalg.norm(difference.astype(wide), axis=(-2, -1))
    norms = [np.linalg.norm(x.astype(wide), axis=(-2, -1)) for x in factors]
    bound = np.prod(np.broadcast_arrays(*norms), axis=0) if norms else np.ones(())
    return float(np.max(size / np.where(bound > 0, bound, 1) / eps))


def square_matrices(n: int = 40) -> dict[str, np.ndarray]:
    """Square matrices by name, in double precision; they fit into single precision."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n, n))
    powers = np.logspace(0, -30, n)
    kahan = 0.9 ** np.arange(n)[:, None] * (np.triu(-0.4 * np.ones((n, n)), 1) + np.eye(n))
    return {
        "random": x,
        "graded rows": powers[:, None] * x,
        "graded columns": powers * x,
        "Kahan": kahan,
        "clustered": np.eye(n) + 1e-6 * x,
        "tiny": 1e-30 * x,
        "huge": 1e30 * x,
        "Wilkinson": np.diag(np.abs(np.arange(n) - n // 2) + 0.5)
        + np.diag(np.ones(n - 1), 1)
        + np.diag(np.ones(n - 1), -1),
        "reversed": np.eye(n)[::-1] + 1e-3 * x,
    }
