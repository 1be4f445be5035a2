"""The kernels around the reductions to tridiagonal and bidiagonal form, and back to vectors.

Complex reflectors become pairs of real ones of twice the length, real and imaginary parts in turn:
``I - tau v v^H`` is ``(I - tau x x^T) (I - tau y y^T)`` for the real forms x of v and y of ``i v``.
Hence all that follows a reduction is real.
"""

from __future__ import annotations

from typing import Any, Literal

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.magnitude import power_bits
from portable.linalg.base.parts import conjugate, largest_part, scaled

Form = Literal["plain", "turned", "hermitian"]
"""A matrix itself, its conjugate transpose, or what its lower triangle makes a Hermitian one."""


@kernel
def largest_parts(a: kl.Array, largest: kl.Array, *, HERMITIAN: bool) -> None:
    """The largest magnitude of parts of elements in each workgroup's share of rows.

    Dimension 1 is the matrices. NaN counts as larger than any number. Of `HERMITIAN` matrices the
    lower triangles are read.
    """
    matrix = a[kl.group_id(1)]
    kind = largest.dtype
    best = kl.cast(0, kind)
    for row in range(kl.group_id(0), matrix.shape[0], kl.num_groups(0)):
        end = row + 1 if HERMITIAN else matrix.shape[1]
        for column in kl.range(kl.local_id(0), end, kl.local_size(0), unroll=4):
            best = largest_part(best, matrix[row, column])
    best = kl.workgroup_reduce(kl.maximum, best)
    if kl.local_id(0) == 0:
        largest[kl.group_id(1), kl.group_id(0)] = best


@kernel
def largest_of_each(parts: kl.Array, largest: kl.Array) -> None:
    """The largest of what workgroups found of each matrix, of which each is one's."""
    matrix = kl.group_id(0)
    best = kl.cast(0, parts.dtype)
    for i in range(kl.local_id(0), parts.shape[1], kl.local_size(0)):
        best = kl.maximum(best, parts[matrix, i])
    best = kl.workgroup_reduce(kl.maximum, best)
    if kl.local_id(0) == 0:
        largest[matrix] = best


@function
def field_of(largest: kl.Scalar, target: int) -> Any:
    """The power of two that a matrix is scaled by; 1 where it is not finite."""
    return power_bits(kl.where(kl.isfinite(largest), largest, largest * 0 + 1), target)


@kernel
def load_scaled(a: kl.Array, largest: kl.Array, out: kl.Array, *, TARGET: int, FORM: Form) -> None:
    """Matrices, scaled by powers of two, with zeros in further rows and columns.

    Zeros in place of one that is not finite. Dimension 0 is columns, 2 the matrices.
    """
    column, row, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if matrix < out.shape[0] and row < out.shape[1] and column < out.shape[2]:
        matrix_here = a[matrix].T if FORM == "turned" else a[matrix]
        value = kl.cast(0, out.dtype)
        if (
            row < matrix_here.shape[0]
            and column < matrix_here.shape[1]
            and kl.isfinite(largest[matrix])
        ):
            if FORM == "hermitian":
                value = lower_at(matrix_here, row, column, out.dtype)
            else:
                value = kl.cast(matrix_here[row, column], out.dtype)
                value = conjugate(value) if FORM == "turned" else value
            value = scaled(value, field_of(largest[matrix], TARGET), 1)
        out[matrix, row, column] = value


@function
def lower_at(matrix: kl.Array, row: kl.Scalar, column: kl.Scalar, kind: Any) -> Any:
    """An element, by the lower triangle; of the diagonal the real part."""
    x = kl.cast(matrix[kl.maximum(row, column), kl.minimum(row, column)], kind)
    if kind.is_complex:
        y = kl.imag(x)
        y = kl.where(row < column, -y, y)
        x = kl.complex(kl.real(x), kl.where(row == column, y * 0, y))
    return x


# -- real diagonals -------------------------------------------------------------------------------


@function
def phase_of(x: kl.Scalar) -> Any:
    """A number divided by its magnitude; 1 of 0."""
    size = kl.abs(x)
    result = kl.complex(size * 0 + 1, size * 0)
    if size > 0:
        result = x / size
    return result


@kernel
def real_tridiagonal(e: kl.Array, off: kl.Array, phases: kl.Array) -> None:
    """Magnitudes of what is below diagonals, and what rows are to be multiplied with for them."""
    matrix = kl.global_id(0)
    if matrix < e.shape[0]:
        phase = kl.complex(kl.cast(1, off.dtype), kl.cast(0, off.dtype))
        for i in range(phases.shape[1]):
            phases[matrix, i] = phase
            off[matrix, i] = kl.abs(e[matrix, i])
            phase = phase * phase_of(e[matrix, i])


@kernel
def real_bidiagonal(
    d: kl.Array, e: kl.Array, on: kl.Array, off: kl.Array, rows: kl.Array, columns: kl.Array
) -> None:
    """Magnitudes of diagonals, and what rows and columns are to be multiplied with for them."""
    matrix = kl.global_id(0)
    if matrix < d.shape[0]:
        phase = kl.complex(kl.cast(1, on.dtype), kl.cast(0, on.dtype))
        for i in range(d.shape[1]):
            columns[matrix, i] = phase
            on[matrix, i] = kl.abs(d[matrix, i])
            phase_here = phase * phase_of(d[matrix, i])
            rows[matrix, i] = phase_here
            if i + 1 < d.shape[1]:
                off[matrix, i] = kl.abs(e[matrix, i])
                phase = kl.conj(phase_of(e[matrix, i])) * phase_here


# -- reflectors -----------------------------------------------------------------------------------


@kernel
def copy_columns(work: kl.Array, kept: Any, vectors: kl.Array, factors: kl.Array) -> None:
    """The reflectors of columns as rows of `vectors`; dimension 0 is their elements, 2 matrices."""
    i, k, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if matrix < vectors.shape[0] and k < vectors.shape[1] and i < vectors.shape[2]:
        n = kept.taus.shape[2]
        value, tau = kl.cast(0, work.dtype), kl.cast(0, kept.taus.dtype)
        if k < n:
            tau = kept.taus[matrix, 0, k]
            if i == k:
                value = kl.cast(1, work.dtype)
            elif i > k and i < work.shape[1]:
                value = kept.factors[matrix, 0, k] * work[matrix, i, k]
        vectors[matrix, k, i] = value
        if i == 0:
            factors[matrix, k] = tau


@kernel
def copy_rows(kept: Any, vectors: kl.Array, factors: kl.Array) -> None:
    """The same of rows' reflectors."""
    i, k, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if matrix < vectors.shape[0] and k < vectors.shape[1] and i < vectors.shape[2]:
        n = kept.taus.shape[2]
        value, tau = kl.cast(0, kept.rows.dtype), kl.cast(0, kept.taus.dtype)
        if k + 1 < n:
            tau = kept.taus[matrix, 1, k]
            if i == k + 1:
                value = kl.cast(1, kept.rows.dtype)
            elif i > k + 1 and i < n:
                value = conjugate(kept.factors[matrix, 1, k] * kept.rows[matrix, k, i])
        vectors[matrix, k, i] = value
        if i == 0:
            factors[matrix, k] = tau


@kernel
def unfold_complex(source: kl.Array, taus: kl.Array, vectors: kl.Array, factors: kl.Array) -> None:
    """Pairs of real reflectors as rows of `vectors`, of complex ones that are rows.

    Dimension 0 is their elements, 1 the reflectors, 2 the matrices.
    """
    i, k, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if matrix < vectors.shape[0] and 2 * k < vectors.shape[1] and 2 * i < vectors.shape[2]:
        value, tau = kl.cast(0, source.dtype), kl.cast(0, taus.dtype)
        if k < source.shape[1] and i < source.shape[2]:
            value, tau = source[matrix, k, i], taus[matrix, k]
        for half in kl.static_range(2):
            vectors[matrix, 2 * k + half, 2 * i] = kl.real(value)
            vectors[matrix, 2 * k + half, 2 * i + 1] = kl.imag(value)
            if i == 0:
                factors[matrix, 2 * k + half] = tau
            value = kl.complex(-kl.imag(value), kl.real(value))


@kernel
def reflector_triangles(gram: kl.Array, factors: kl.Array | None, triangles: kl.Array) -> None:
    """The transposed T of ``I - V T V^T`` from the products of V's columns; a row a work-item.

    Without `factors` they are what makes reflectors of V's columns, nothing of zeros. Dimension 1
    is the blocks, which are `size` reflectors each; R. Schreiber, C. Van Loan, SIAM J. Sci. Stat.
    Comput. 10 (1989).
    """
    i, block, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    size = gram.shape[3]
    if matrix < gram.shape[0] and block < gram.shape[1] and i < size:
        for j in range(size):
            square = gram[matrix, block, j, j]
            tau = square * 0
            if factors is not None:
                tau = factors[matrix, block * size + j]
            elif square > 0:
                tau = 2 / square
            value = kl.where(i == j, tau, tau * 0)
            if j > i:
                total = tau * 0
                for k in range(i, j):
                    total = total + triangles[matrix, block, k, i] * gram[matrix, block, k, j]
                value = -tau * total
            triangles[matrix, block, j, i] = value


# -- vectors --------------------------------------------------------------------------------------


@kernel
def spread(
    vectors: kl.Array, phases: kl.Array | None, x: kl.Array, n: kl.Scalar, *, REVERSED: bool
) -> None:
    """The first n rows and columns of `vectors` at the top of `x`, multiplied with `phases`.

    The identity in columns from n on, zeros elsewhere. Dimension 0 is columns, 2 the matrices.
    """
    column, row, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    COUNT = 1 if phases is None else 2
    if matrix < x.shape[0] and COUNT * row < x.shape[1] and column < x.shape[2]:
        value = kl.cast(0, x.dtype)
        if row < n and column < n:
            value = vectors[matrix, row, n - 1 - column if REVERSED else column]
        elif row == column:
            value = kl.cast(1, x.dtype)
        if phases is None:
            x[matrix, row, column] = value
        else:
            phase = kl.complex(kl.cast(1, x.dtype), kl.cast(0, x.dtype))
            if row < n:
                phase = phases[matrix, row]
            x[matrix, 2 * row, column] = kl.real(phase) * value
            x[matrix, 2 * row + 1, column] = kl.imag(phase) * value


@kernel
def collect(x: kl.Array, out: kl.Array, *, TRANSPOSED: bool) -> None:
    """Vectors as columns, or conjugated as rows, of parts that may be real and imaginary in turn.

    Dimension 0 is columns of `x`, 2 the matrices.
    """
    column, row, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    COUNT = 2 if out.dtype.is_complex else 1
    rows = out.shape[2] if TRANSPOSED else out.shape[1]
    if matrix < x.shape[0] and row < rows and column < x.shape[2]:
        value = x[matrix, COUNT * row, column]
        if COUNT == 2:
            value = kl.complex(value, x[matrix, 2 * row + 1, column])
        if TRANSPOSED:
            out[matrix, column, row] = conjugate(value)
        else:
            out[matrix, row, column] = value


@kernel
def take_squares(
    squares: kl.Array,
    vectors: kl.Array,
    values: kl.Array,
    factor: kl.Array,
    other: kl.Array,
    *,
    COLUMNS: bool,
) -> None:
    """Singular values and one side's vectors of what decomposes Gram matrices; 2 is the matrices.

    `factor` becomes what matrices are multiplied with to give the other side's vectors. `other` has
    this side's as `COLUMNS`, or as rows.
    """
    column, row, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    n = squares.shape[1]
    if matrix < squares.shape[0] and row < n and column < n:
        x, value = vectors[matrix, row, n - 1 - column], kl.sqrt(squares[matrix, n - 1 - column])
        factor[matrix, row, column] = x / value
        if COLUMNS:
            other[matrix, row, column] = x
        else:
            other[matrix, column, row] = x
        if row == 0:
            values[matrix, column] = value
