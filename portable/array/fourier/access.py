"""How passes of a transform read what they transform and write what they found.

What else is done to each number (padding, mirroring, conjugation, tables, scaling) is done on the
way. A pass transforms *lines*: a line consists of every `step`-th element of a row of an array.
Lines are counted row by row, or, where elements of `inner` rows lie side by side, those lines of
these rows in turn that begin with the same element.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.fourier.butterflies import times
from portable.lang.function import function
from portable.primitives.maps.elementwise_kernel import unravelled

__all__ = [
    "ALONG",
    "BESIDE",
    "HALVED",
    "MERGED",
    "MIRRORED",
    "PAIRED",
    "SPLIT",
    "WITHIN",
    "element",
    "extent",
    "number_at",
    "pair_of",
    "place_of",
    "put_at",
    "recombined",
    "row_of",
    "scaled",
    "start_of",
    "turn_between",
]

WITHIN = "within"
"""Complex numbers as pairs of real ones along the rows, of which neighbouring lines are parts."""
BESIDE = "beside"
"""Complex numbers as pairs of real ones along the last dimension but one, in neighbouring rows."""
ALONG = "along"
"""Complex numbers as pairs of real ones along the rows, each of them one line."""
PAIRED = "paired"
"""Neighbouring real numbers of rows in pairs, as complex numbers; the last may lack its second."""
HALVED = "halved"
"""Rows of real numbers of which the first half are real parts and the second imaginary ones."""

MIRRORED = "mirrored"
"""Rows that are read are halves of Hermitian ones."""
MERGED = "merged"
"""Such rows, made into what a transform of half the length takes to give real numbers in pairs."""
SPLIT = "split"
"""Results of pairs of real numbers are made into half of the Hermitian row of these numbers."""


@function
def row_of(x: Any, line: Any, step: Any, inner: Any, FORM: Any) -> Any:
    """The index of a line's row: all dimensions but the last. `step` and `inner` are None for 1."""
    shape = x.shape[: x.ndim - 1]
    if FORM == BESIDE:
        shape = (*shape[: x.ndim - 2], shape[x.ndim - 2] // 2)
    row = line
    if step is not None:
        row = line // step if inner is None else line // (step * inner) * inner + line % inner
    return unravelled(row, shape)


@function
def start_of(line: Any, step: Any, inner: Any) -> Any:
    """The element of its row with which a line begins, below `step`."""
    if step is None:
        return 0
    return line % step if inner is None else line // inner % step


@function
def place_of(a: Any, start: Any, step: Any) -> Any:
    """Which element of its row element `a` of a line is."""
    return a if step is None else a * step + start


@function
def extent(x: Any, FORM: Any) -> Any:
    """How many numbers a row has."""
    end = x.shape[x.ndim - 1]
    if x.dtype == kl.u64 or x.dtype.is_complex:
        return end
    if FORM == PAIRED:
        return (end + 1) // 2
    return end // 2 if FORM in (WITHIN, ALONG, HALVED) else end


@function
def pair_of(row: Any, j: Any, part: int, FORM: Any) -> Any:
    """Where the real (0) or imaginary (1) part of an element stands."""
    if FORM in (WITHIN, ALONG, PAIRED):
        return (*row, 2 * j + part)
    last = len(row) - 1
    return (*row[:last], 2 * row[last] + part, j)


@function
def element(x: Any, row: Any, j: Any, FORM: Any) -> Any:
    """An element as a complex number, in words of 64 bits or of its type, or as `FORM` says."""
    if x.dtype == kl.u64:
        word = x[*row, j]
        return kl.complex(
            kl.bitcast(kl.cast(word, kl.u32), kl.f32),
            kl.bitcast(kl.cast(word >> 32, kl.u32), kl.f32),
        )
    if FORM == HALVED:
        return kl.complex(x[*row, j], x[*row, extent(x, FORM) + j])
    if FORM == PAIRED:
        first, end = x[*row, 2 * j], x.shape[x.ndim - 1]
        second = x[*row, kl.minimum(2 * j + 1, end - 1)]
        return kl.complex(first, kl.where(2 * j + 1 < end, second, second * 0))
    if FORM in (WITHIN, BESIDE) and not x.dtype.is_complex and not kl.target.lone_work_items:
        both = kl.vload(x, *pair_of(row, j, 0, FORM), lanes=2, axis=-1 if FORM == WITHIN else -2)
        return kl.complex(both[0], both[1])
    if FORM is not None and not x.dtype.is_complex:
        return kl.complex(x[*pair_of(row, j, 0, FORM)], x[*pair_of(row, j, 1, FORM)])
    found = x[*row, j]
    return found if x.dtype.is_complex else kl.complex(found, found * 0)


@function
def number_at(
    x: Any, row: Any, j: Any, sign: Any, table: Any, length: Any, turns: Any, FORM: Any, REAL: Any,
    FITTING: bool,
) -> Any:  # fmt: skip
    """Element `j` of a row; zero beyond the end, which is not looked for if rows are `FITTING`.

    It is conjugated if `sign` is -1, and multiplied by that of `table` unless that is None. If
    `REAL` is `MIRRORED` or `MERGED`, the row is half of a Hermitian one of `length` elements, of
    whose elements 0 and ``length / 2`` the real parts count.
    """
    if REAL == MERGED:
        z = merged_at(x, row, j, sign, length // 2, turns, FORM, FITTING)
        return z if table is None else times(z, factor_at(table, j))
    if FITTING and REAL != MIRRORED:
        z = element(x, row, j, FORM)
        z = kl.complex(z.real, z.imag * sign)
        return z if table is None else times(z, factor_at(table, j))
    at = kl.minimum(j, length - j) if REAL == MIRRORED else j
    end = extent(x, FORM)
    inside = (at < end) & (j < length) if REAL == MIRRORED else at < end
    z = element(x, row, kl.clip(at, 0, end - 1), FORM)
    if REAL == MIRRORED:
        alone = (at == 0) | (2 * at == length)
        z = kl.complex(z.real, kl.where(alone, z.real * 0, kl.where(at < j, -z.imag, z.imag)))
    z = kl.complex(z.real, z.imag * sign)
    if table is not None:
        z = times(z, factor_at(table, j))
    return kl.complex(kl.where(inside, z.real, 0), kl.where(inside, z.imag, 0))


@function
def factor_at(table: Any, j: Any) -> Any:
    """What an element is multiplied by on reading; those beyond the end are zero."""
    return element(table, (), kl.minimum(j, extent(table, WITHIN) - 1), WITHIN)


@function
def merged_at(
    x: Any, row: Any, j: Any, sign: Any, half: Any, turns: Any, FORM: Any, FITTING: bool
) -> Any:
    """Element `j` of `half` many, see `MERGED`; zero beyond."""
    k = kl.minimum(j, half)
    z = number_at(x, row, k, sign, None, None, None, FORM, None, FITTING)
    other = number_at(x, row, half - k, sign, None, None, None, FORM, None, FITTING)
    z = kl.complex(z.real, kl.where(k == 0, 0, z.imag))
    other = kl.complex(other.real, kl.where(k == 0, 0, other.imag))
    z = recombined(z, other, element(turns, (), kl.minimum(k, half - 1), WITHIN), 1)
    return kl.complex(kl.where(j < half, z.real, 0), kl.where(j < half, z.imag, 0))


@function
def recombined(z: Any, other: Any, turn: Any, SIGN: int) -> Any:
    """An element of a merged (`SIGN` 1) or split (-1) row; `other` is the one mirrored to `z`.

    It comes out doubled.
    """
    total = kl.complex(z.real + other.real, z.imag - other.imag)
    gap = times(kl.complex(z.real - other.real, z.imag + other.imag), turn)
    return kl.complex(total.real - SIGN * gap.imag, total.imag + SIGN * gap.real)


@function
def turn_between(coarse: Any, fine: Any, start: Any, k: Any) -> Any:
    """The rotation between two passes, by the product of two small tables' elements."""
    width = extent(fine, WITHIN)
    return times(
        element(coarse, (start // width,), k, WITHIN), element(fine, (k,), start % width, WITHIN)
    )


@function
def scaled(z: Any, factor: Any, scales: Any) -> Any:
    """What is done to a result: `scales` are (sign, scale of real parts, of imaginary parts).

    A sign of -1 conjugates before the multiplication by `factor`, unless that is None.
    """
    if factor is not None:
        z = times(kl.complex(z.real, z.imag * scales[0]), factor)
    return kl.complex(z.real * scales[1], z.imag * scales[2])


@function
def put_at(
    out: Any, row: Any, k: Any, z: Any, table: Any, scales: Any, FORM: Any, FITTING: bool
) -> None:
    """Writes element `k` of a row unless it is beyond the end, see `number_at` and `scaled`."""
    if FITTING or k < extent(out, FORM):
        z = scaled(z, None if table is None else element(table, (), k, WITHIN), scales)
        if out.dtype == kl.u64:
            low = kl.cast(kl.bitcast(z.real, kl.u32), kl.u64)
            out[*row, k] = low | (kl.cast(kl.bitcast(z.imag, kl.u32), kl.u64) << 32)
        elif FORM == HALVED:
            out[*row, k] = z.real
            out[*row, extent(out, FORM) + k] = z.imag
        elif FORM in (WITHIN, BESIDE) and not kl.target.lone_work_items:
            place = pair_of(row, k, 0, FORM)
            kl.vstore(out, *place, kl.vector(z.real, z.imag), axis=-1 if FORM == WITHIN else -2)
        elif FORM is not None:
            out[*pair_of(row, k, 0, FORM)] = z.real
            out[*pair_of(row, k, 1, FORM)] = z.imag
        else:
            out[*row, k] = z if out.dtype.is_complex else z.real
