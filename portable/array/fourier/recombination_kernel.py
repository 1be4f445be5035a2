"""Rows of halves, see `portable.array.fourier.even_reals`, in a pass over memory of their own."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.fourier.access import (
    WITHIN,
    element,
    extent,
    number_at,
    put_at,
    recombined,
    scaled,
)
from portable.array.fourier.butterflies import times
from portable.array.fourier.vector_kernels import complex_vector, put_complex_vector
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import unravelled

__all__ = ["recombine_rows"]


@function
def conjugate(z: Any) -> Any:
    """The mirror image in the real axis."""
    return kl.complex(z.real, -z.imag)


@function
def turn_at(coarse: Any, fine: Any, k: Any) -> Any:
    """A rotation, by the product of two small tables' elements."""
    width = extent(fine, WITHIN)
    return times(element(coarse, (), k // width, WITHIN), element(fine, (), k % width, WITHIN))


@function
def turns_at(coarse: Any, fine: Any, k: Any, LANES: int) -> Any:
    """`turn_at` of neighbours, of which as many as there are lanes begin with `k`."""
    width = extent(fine, WITHIN)
    near = complex_vector(fine, (), 2 * (k % width), (), LANES)
    return times(element(coarse, (), k // width, WITHIN), near)


@function
def recombine_pair(
    x: Any, out: Any, row: Any, k: Any, n: Any, coarse: Any, fine: Any, sign: Any, scales: Any,
    FORM: Any, SIGN: int,
) -> None:  # fmt: skip
    """Element `k` of a row and its mirror image."""
    last = (n - k) % n if SIGN == -1 else n - k
    z = number_at(x, row, k, sign, None, None, None, FORM, None, False)
    other = number_at(x, row, last, sign, None, None, None, FORM, None, False)
    if SIGN == 1:
        z = kl.complex(z.real, kl.where(k == 0, 0, z.imag))
        other = kl.complex(other.real, kl.where(k == 0, 0, other.imag))
    turn = turn_at(coarse, fine, k)
    put_at(out, row, k, recombined(z, other, turn, SIGN), None, scales, FORM, False)
    # The rotation of the mirror image is the negative conjugate.
    mirrored = conjugate(recombined(z, other, turn, -SIGN))
    put_at(out, row, n - k, mirrored, None, scales, FORM, False)


@function
def reversed_lanes(x: Any, LANES: int) -> Any:
    """The lanes of a vector from the last to the first."""
    lanes = ()
    for lane in kl.static_range(LANES):
        lanes = (x[lane], *lanes)  # type: ignore[assignment]
    return kl.vector(*lanes)


@function
def reversed_vector(z: Any, LANES: int) -> Any:
    """Complex numbers in reverse."""
    return kl.complex(reversed_lanes(z.real, LANES), reversed_lanes(z.imag, LANES))


@function
def recombine_vectors(
    x: Any, out: Any, row: Any, k: Any, n: Any, coarse: Any, fine: Any, sign: Any, scales: Any,
    SIGN: int, LANES: int,
) -> None:  # fmt: skip
    """`recombine_pair` of the elements from `k` on, all of them there, none of them the first."""
    mirrored = n - k - (LANES - 1)
    z = complex_vector(x, row, 2 * k, (), LANES)
    other = reversed_vector(complex_vector(x, row, 2 * mirrored, (), LANES), LANES)
    z = kl.complex(z.real, z.imag * sign)
    other = kl.complex(other.real, other.imag * sign)
    turn = turns_at(coarse, fine, k, LANES)
    near = scaled(recombined(z, other, turn, SIGN), None, scales)
    put_complex_vector(out, row, 2 * k, (), near, LANES)
    far = scaled(conjugate(recombined(z, other, turn, -SIGN)), None, scales)
    put_complex_vector(out, row, 2 * mirrored, (), reversed_vector(far, LANES), LANES)


@kernel
def recombine_rows(
    x: Any,
    out: Any,
    coarse: Any,
    fine: Any,
    sign: Any,
    sign_between: Any,
    scale: Any,
    imag_scale: Any,
    n: Any,
    rows: Any,
    *,
    CHUNK: int,
    LANES: int,
    SIGN: int,
    ACROSS: bool,
) -> None:
    """Merges (`SIGN` 1) or splits (-1) rows, each work-item `CHUNK` elements and their mirrors.

    Neighbouring work-items are at neighbouring rows if `ACROSS`, else along a row. If there are
    `LANES`, the arrays hold the parts of complex numbers.
    """
    FORM = WITHIN if LANES > 1 else None
    scales = (sign_between, scale, imag_scale)
    many = n // 2 + 1
    chunks = kl.cdiv(many, CHUNK)
    item = kl.global_id(0)
    if item < rows * chunks:
        line = item % rows if ACROSS else item // chunks
        k = (item // rows if ACROSS else item % chunks) * CHUNK
        row = unravelled(line, x.shape[: x.ndim - 1])
        stop = kl.minimum(k + CHUNK, many)
        if LANES > 1:
            # Vectors begin at multiples of their length, as those of the table do.
            together = kl.where(extent(x, FORM) < n, 0, stop - LANES + 1)
            while k < together:
                if k == 0:
                    for first in range(LANES):
                        recombine_pair(
                            x, out, row, first, n, coarse, fine, sign, scales, FORM, SIGN
                        )
                else:
                    recombine_vectors(
                        x, out, row, k, n, coarse, fine, sign, scales, SIGN, LANES
                    )  # fmt: skip
                k = k + LANES
        while k < stop:
            recombine_pair(x, out, row, k, n, coarse, fine, sign, scales, FORM, SIGN)
            k = k + 1
