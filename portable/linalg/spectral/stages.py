"""Matrices of any size decomposed in stages: reduced, divided and conquered, and led back."""

from __future__ import annotations

from typing import Any, Final

from portable.backend import Device
from portable.dtypes import dtype
from portable.linalg.spectral.divide import bidiagonal_vectors, tridiagonal_vectors
from portable.linalg.spectral.reduction_kernels import collect, spread, store_spectrum
from portable.linalg.spectral.reductions import (
    SCALED_TO,
    Reflectors,
    largest_magnitudes,
    reduced_to_bidiagonal,
    reduced_to_tridiagonal,
)
from portable.linalg.spectral.reflections import reflect

__all__ = ["hermitian_in_stages", "svd_in_stages"]

_TILE: Final = (32, 8, 1)
_LINE: Final = 64


def hermitian_in_stages(device: Device, a: Any, values: Any, vectors: Any) -> tuple[Any, ...]:
    """Eigenvalues and eigenvectors of Hermitian matrices, given as to `rotations`.

    Returns
    -------
    array, array
        Largest magnitudes, and what is not 0 where rotations did not end.
    """
    largest = largest_magnitudes(device, a, hermitian=True)
    reduced = reduced_to_tridiagonal(device, a, largest)
    blocks, status = tridiagonal_vectors(device, reduced.d, reduced.e)
    n = int(reduced.d.shape[1])
    _store_values(blocks.values, largest, values, reverse=False)
    if vectors is not None:
        _lead_back(device, n, blocks.right, reduced.columns, vectors, reverse=False, turned=False)
    return largest, status


def svd_in_stages(device: Device, a: Any, values: Any, left: Any, right: Any) -> tuple[Any, ...]:
    """Singular values and vectors of matrices, given as to `rotations`.

    Returns
    -------
    array, array
        As of `hermitian_in_stages`.
    """
    turned = a.shape[1] < a.shape[2]
    largest = largest_magnitudes(device, a, hermitian=False)
    reduced = reduced_to_bidiagonal(device, a, largest)
    blocks, status = bidiagonal_vectors(device, reduced.d, reduced.e)
    n = int(reduced.d.shape[1])
    _store_values(blocks.values, largest, values, reverse=True)
    longs, squares = (right, left) if turned else (left, right)
    assert reduced.rows is not None
    _lead_back(device, n, blocks.left, reduced.columns, longs, reverse=True, turned=turned)
    _lead_back(device, n, blocks.right, reduced.rows, squares, reverse=True, turned=not turned)
    return largest, status


def _store_values(found: Any, largest: Any, values: Any, *, reverse: bool) -> None:
    count, n = (int(x) for x in values.shape)
    store_spectrum[(n, count), (_LINE, 1)](
        found, largest, values, TARGET=SCALED_TO, REVERSED=reverse
    )


def _lead_back(
    device: Device, n: int, found: Any, by: Reflectors, out: Any, *, reverse: bool, turned: bool
) -> None:
    """Vectors of a reduced matrix multiplied with the reflectors that reduced it."""
    kind = dtype(out.dtype)
    count, rows, columns = (int(x) for x in out.shape)
    rows, columns = (columns, rows) if turned else (rows, columns)
    plain = not (kind.is_complex or turned)
    parts = 2 if kind.is_complex else 1
    x = out if plain else device.empty((count, parts * rows, columns), kind.real)
    spread[(columns, rows, count), _TILE](found, by.phases, x, n, REVERSED=reverse)
    reflect(device, by.vectors, by.factors, x, by.first)
    if not plain:
        collect[(columns, rows, count), _TILE](x, out, TURNED=turned)
