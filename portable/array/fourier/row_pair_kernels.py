"""Pairs of Hermitian rows and rows of complex numbers, see `portable.array.fourier.row_pairs`."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.fourier.access import MIRRORED, number_at, put_at
from portable.lang.kernel import kernel

__all__ = ["join_row_pairs", "split_row_pairs"]


@kernel
def split_row_pairs(
    x: Any, out: Any, sign: Any, sign_between: Any, scale: Any, imag_scale: Any, n: Any
) -> None:
    """Rows 2 r and 2 r + 1 of `out`, doubled, whose transforms are the parts of row r of `x`."""
    item = kl.global_id(0)
    many = out.shape[1]
    row, k = item // many, item % many
    if row < x.shape[0]:
        scales = (sign_between, scale, imag_scale)
        z = number_at(x, (row,), k, sign, None, None, None, None, None, True)
        other = number_at(x, (row,), (n - k) % n, sign, None, None, None, None, None, True)
        first = kl.complex(z.real + other.real, z.imag - other.imag)
        second = kl.complex(z.imag + other.imag, other.real - z.real)
        put_at(out, (2 * row,), k, first, None, scales, None, True)
        put_at(out, (2 * row + 1,), k, second, None, scales, None, True)


@kernel
def join_row_pairs(
    x: Any, out: Any, sign: Any, sign_between: Any, scale: Any, imag_scale: Any, n: Any
) -> None:
    """Row r of `out` from rows 2 r and 2 r + 1 of `x`, which are halves of Hermitian rows."""
    item = kl.global_id(0)
    row, k = item // n, item % n
    if row < out.shape[0]:
        scales = (sign_between, scale, imag_scale)
        first = number_at(x, (2 * row,), k, sign, None, n, None, None, MIRRORED, False)
        second = number_at(x, (2 * row + 1,), k, sign, None, n, None, None, MIRRORED, False)
        z = kl.complex(first.real - second.imag, first.imag + second.real)
        put_at(out, (row,), k, z, None, scales, None, True)
