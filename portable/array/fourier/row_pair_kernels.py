"""Pairs of Hermitian rows and rows of complex numbers, see `portable.array.fourier.row_pairs`."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel

__all__ = ["join_row_pairs", "split_row_pairs"]


@kernel
def split_row_pairs(source: Any, target: Any, n: Any) -> None:
    """Rows 2 r and 2 r + 1, doubled, whose transforms are the parts of row r that is read."""
    item = kl.global_id(0)
    many = target.extent()
    row, k = item // many, item % many
    if row < source.array.shape[0]:
        z, other = source.number((row,), k), source.number((row,), (n - k) % n)
        first = kl.complex(z.real + other.real, z.imag - other.imag)
        target.put((2 * row,), k, first)
        second = kl.complex(z.imag + other.imag, other.real - z.real)
        target.put((2 * row + 1,), k, second)


@kernel
def join_row_pairs(source: Any, target: Any, n: Any) -> None:
    """Row r from rows 2 r and 2 r + 1 that are read, which are halves of Hermitian rows."""
    item = kl.global_id(0)
    row, k = item // n, item % n
    if row < target.array.shape[0]:
        first, second = source.number((2 * row,), k), source.number((2 * row + 1,), k)
        target.put((row,), k, kl.complex(first.real - second.imag, first.imag + second.real))
