"""The kernels with which `portable.linalg.dense_to_band` begins and ends, and what clears."""

from __future__ import annotations

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.linalg.base.magnitude import power_bits, scaled_by


@kernel
def load_dense(
    a: kl.Array, largest: kl.Array, out: kl.Array, *, TARGET: int, TRANSPOSED: bool
) -> None:
    """The matrix, or its transpose, scaled by a power of two; zeros in further rows and columns."""
    column, row, matrix = kl.global_id(0), kl.global_id(1), a.T if TRANSPOSED else a
    if row < out.shape[0] and column < out.shape[1]:
        value = kl.cast(0, out.dtype)
        if row < matrix.shape[0] and column < matrix.shape[1]:
            value = kl.cast(matrix[row, column], out.dtype)
        out[row, column] = scaled_by(value, power_bits(largest[0], TARGET), 1)


@kernel
def clear(x: kl.Array) -> None:
    """A vector of zeros."""
    i = kl.global_id(0)
    if i < x.shape[0]:
        x[i] = 0


@kernel
def clear_below(a: kl.Array) -> None:
    """Zeros below the diagonal."""
    column, row = kl.global_id(0), kl.global_id(1)
    if column < row and row < a.shape[0] and column < a.shape[1]:
        a[row, column] = 0


@kernel
def store_band(
    a: kl.Array,
    largest: kl.Array,
    ab: kl.Array,
    scales: kl.Array | None,
    bound: kl.Scalar,
    *,
    TARGET: int,
) -> None:
    """The upper band in diagonal-ordered form, zeros where no element is.

    Scaled back, unless `scales` is an array of two numbers: then the band stays as it is, and they
    become what the largest element of the matrix was scaled to, and the `bound` of its singular
    values.
    """
    column, diagonal = kl.global_id(0), kl.global_id(1)
    if diagonal < ab.shape[0] and column < ab.shape[1]:
        row = column + diagonal - (ab.shape[0] - 1)
        value = kl.cast(0, a.dtype)
        if row >= 0:
            value = a[row, column]
            if scales is None:
                value = scaled_by(value, power_bits(largest[0], TARGET), -1)
        ab[diagonal, column] = value
    if scales is not None and diagonal == 0 and column == 0:
        scales[0] = scaled_by(largest[0], power_bits(largest[0], TARGET), 1)
        scales[1] = kl.cast(bound, scales.dtype)


@kernel
def store_values(
    scaled: kl.Array, largest: kl.Array, values: kl.Array, *, TARGET: int, REVERSED: bool
) -> None:
    """The values of scaled matrices, scaled back, zeros of zeros; dimension 1 is the matrices."""
    i, matrix = kl.global_id(0), kl.global_id(1)
    n = values.shape[1]
    if matrix < values.shape[0] and i < n:
        value = scaled[matrix, n - 1 - i if REVERSED else i]
        # What was not scaled would be as large as rounding errors of a matrix that was.
        value = kl.where(largest[matrix] == 0, kl.cast(0, value.dtype), value)
        values[matrix, i] = scaled_by(value, power_bits(largest[matrix], TARGET), -1)
