"""Matrix fragments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from portable.lang.words.word import word

__all__ = [
    "elements",
    "matrix",
    "mma",
]


@word
def matrix(
    shape: Sequence[int],
    dtype: Any,
    *,
    scope: str = "workgroup",
    use: str = "accumulator",
    units: bool = True,
    split: bool | Literal["first", "exact", "given"] = False,
) -> Any:
    """A matrix fragment held by a ``"work_item"``, ``"sub_group"`` or ``"workgroup"`` together.

    Where the device has matrix units for its types it is held as they want it unless `units` is
    False, else as a tile of registers per work-item.

    A single-precision accumulator that is `split` may have matrix units multiply each factor as a
    sum of two numbers of 11 bits: products are then within 2^-20 of the exact ones, relatively, but
    an infinite factor gives NaN. (H. Ootomo, R. Yokota, "Recovering single precision accuracy from
    Tensor Cores while surpassing the FP32 theoretical peak performance", IJHPCA 36, 2022.) With
    "first" only the first of the two numbers counts, rounded to nearest: NVIDIA's TF32, within
    2^-10. The units round sums towards zero; with "exact" they add up 8 products at a time, and
    their sums are added outside: of 4096 of random numbers an H200 made a thirtieth of the error
    so, in 1.3 times the time. "given" is for factors that are given as such numbers: of a part
    of columns of `a` and rows of `b` the first half are high, the others low, of which those that
    meet are left out. What units add up of it is added outside. Only NVIDIA's warpgroups can.

    It has ``fill(x)``, ``load(part)``, ``store(part)`` and ``map(function, *more)``, where the
    function takes an element, or an element, its row and its column, and then `more`. It may be
    stored to a part of more dimensions, all but the last of which are counted as one, in C order.
    """


@word
def mma(accumulator: Any, a: Any, b: Any, *, valid: Any = None) -> None:
    """``accumulator += a @ b``; the operands are fragments or 2-d parts of local arrays.

    ``valid=(m, n, k)`` says that columns of `a` and rows of `b` from `k` on are zeros, and that
    rows of the accumulator from `m` on and columns from `n` on are not needed, so that they may be
    skipped.
    """


@word
def elements(fragment: Any) -> Any:
    """For loops only: ``for row, column, value in kl.elements(m)``, what this work-item holds."""
