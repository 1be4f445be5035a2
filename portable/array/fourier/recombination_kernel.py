"""Rows of halves, see `portable.array.fourier.even_reals`, in a pass over memory of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.array.fourier.access import WITHIN, backwards, element, extent
from portable.array.fourier.butterflies import times
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["Turns", "recombine_rows"]


@dataclass(frozen=True)
class Turns:
    """Rotations, each the product of elements of two small tables."""

    coarse: Any
    fine: Any

    def some(self, k: Any, LANES: int) -> Any:
        """As many neighbours as there are lanes, which begin with the `k`-th."""
        width = extent(self.fine, WITHIN)
        coarse = element(self.coarse, (), k // width)
        return times(coarse, element(self.fine, (), k % width, WITHIN, LANES))


@function
def recombine_pair(
    source: Any, target: Any, rows: Any, k: Any, n: Any, turns: Any, SIGN: int
) -> None:
    """Element `k` of a row and its mirror image; `rows` has its index in source and target."""
    row, to = rows
    z, other = source.number(row, k), source.number(row, (n - k) % n if SIGN == -1 else n - k)
    if SIGN == 1:
        z = kl.complex(z.real, kl.where(k == 0, 0, z.imag))
        other = kl.complex(other.real, kl.where(k == 0, 0, other.imag))
    target.put_pair(to, k, n, (z, other), turns.some(k, 1), SIGN)


@function
def recombine_vectors(
    source: Any, target: Any, rows: Any, k: Any, n: Any, turns: Any, SIGN: int, LANES: int
) -> None:
    """`recombine_pair` of the elements from `k` on, all of them there, none of them the first."""
    row, to = rows
    other = backwards(source.vector(row, n - k - (LANES - 1), LANES))
    pair = source.vector(row, k, LANES), other
    target.put_pair(to, k, n, pair, turns.some(k, LANES), SIGN)


@kernel
def recombine_rows(
    source: Any, target: Any, turns: Any, n: Any, rows: Any, *, CHUNK: int, LANES: int, SIGN: int,
    ACROSS: bool,
) -> None:  # fmt: skip
    """Merges (`SIGN` 1) or splits (-1) rows, each work-item `CHUNK` elements and their mirrors.

    Parameters
    ----------
    source : Source
        What is read.
    target : Target
        What is written.
    turns : Turns
        The rotations, by ``exp(-pi i k / n)``.
    n, rows : int
        How many elements rows of halves have, and how many rows there are.
    CHUNK, LANES : int
        Elements for a work-item, and of a vector. If that is not 1, the arrays hold the parts of
        complex numbers.
    SIGN : int
        1 or -1.
    ACROSS : bool
        Whether neighbouring work-items are at neighbouring rows, else along a row.
    """
    many = n // 2 + 1
    chunks = kl.cdiv(many, CHUNK)
    item = kl.global_id(0)
    if item < rows * chunks:
        k = (item // rows if ACROSS else item % chunks) * CHUNK
        line = item % rows if ACROSS else item // chunks
        row = source.row(line)
        # Arrays of as many dimensions have rows of one shape.
        both = row, row if target.array.ndim == source.array.ndim else target.row(line)
        stop = kl.minimum(k + CHUNK, many)
        if LANES > 1:
            # Vectors begin at multiples of their length, as those of the table do.
            together = kl.where(source.extent() < n, 0, stop - LANES + 1)
            while k < together:
                if k == 0:
                    for first in range(LANES):
                        recombine_pair(source, target, both, first, n, turns, SIGN)
                else:
                    recombine_vectors(source, target, both, k, n, turns, SIGN, LANES)
                k = k + LANES
        while k < stop:
            recombine_pair(source, target, both, k, n, turns, SIGN)
            k = k + 1
