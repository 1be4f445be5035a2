"""The kernel that turns panels into triangles by Householder reflectors, one workgroup each.

Of a panel's columns from a row on it leaves R, and ``Q = I - V T V^H``: V with ones on its diagonal
and T, upper triangular (R. Schreiber, C. Van Loan, "A storage-efficient WY representation for
products of Householder transformations", SIAM J. Sci. Stat. Comput. 10 (1989)). One pass over the
panel applies a reflector and adds up the products that the next one is made of.
"""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.magnitude import power_bits
from portable.linalg.base.parts import conjugate, scaled
from portable.linalg.factorisations.layout import Layout
from portable.linalg.factorisations.panel_kernels import columns_from, copy_row, fetch_row, size_of

_CHAIN: Final = 256
"""Products that a work-item adds up one after the other at most."""

TARGET: Final = 20
"""The exponent that a panel's largest element is scaled to: squares neither overflow nor vanish."""


@kernel
def factor_columns(
    a: kl.Array,
    v: kl.Array,
    t: kl.Array,
    room: kl.Array,
    where: tuple[kl.Scalar, ...],
    *,
    LAYOUT: Layout,
) -> None:
    """Factors columns from `first` to `stop` of each matrix, from the diagonal down.

    Parameters
    ----------
    a : array, shape (batch, m, n)
        The matrices; R takes the place of the triangle.
    v : array, shape (batch, m, k)
        V takes the place of these columns, from row `first` on.
    t : array, shape (batch, k, wide)
        T goes to rows from `first` and columns from `place` on.
    room : array, shape (batch, m, panel)
        Where the panel lies meanwhile.
    where : (int, int, int)
        `first` and `stop`, at most `panel` columns, and no more than there are rows; and `place`.
    """
    first, stop, slot = where
    batch, PANEL, LANES = kl.group_id(0), LAYOUT.panel, LAYOUT.lanes
    m, width = a.shape[1] - first, stop - first
    matrix, w = a[batch], room[batch]
    field = load_panel(matrix, w, first, width, m, LAYOUT)
    factor = kl.local((PANEL, PANEL), a.dtype)
    sums = kl.private(PANEL // LANES, w.dtype, lanes=LANES, fill=0)
    for r in kl.workgroup_range(1, m):
        add_products(w, r, 0, sums, LANES)
    for k in range(width):
        reflect(w, sums, factor, (k, m), LAYOUT)
    kl.barrier()
    for r in kl.workgroup_range(kl.minimum(PANEL, m)):
        for j in range(width):
            below = kl.where(r == j, kl.cast(1, w.dtype), kl.cast(0, w.dtype))
            v[batch, first + r, first + j] = kl.where(r > j, w[r, j], below)
            if r <= j:
                matrix[first + r, first + j] = scaled(w[r, j], field, -1)
    for r in kl.workgroup_range(PANEL, m):
        copy_row(w, v[batch], ((r, 0), (first + r, first)), width, LAYOUT)
    for entry in kl.workgroup_range(PANEL * PANEL):
        i, j = entry // PANEL, entry % PANEL
        if i < width and j < width:
            t[batch, first + i, slot + j] = factor[i, j]


@function
def load_panel(
    matrix: kl.Array, w: kl.Array, first: kl.Scalar, width: kl.Scalar, m: kl.Scalar, LAYOUT: Layout
) -> Any:
    """Copies a panel, zeros beyond it, scaled by a power of two, whose exponent field it gives."""
    PANEL, LANES, best = LAYOUT.panel, LAYOUT.lanes, kl.cast(0, w.dtype.real)
    sizes = kl.private(PANEL // LANES, w.dtype.real, lanes=LANES, fill=0)
    largest = kl.private(PANEL, w.dtype.real)
    for r in kl.workgroup_range(m):
        fetch_row(matrix, w, first, r, width, LAYOUT)
        for i in kl.static_range(PANEL // LANES):
            sizes[i] = kl.maximum(sizes[i], size_of(kl.vload(w, r, i * LANES, lanes=LANES)))
    for i in kl.static_range(PANEL // LANES):
        kl.vstore(largest, i * LANES, sizes[i])
    for j in kl.static_range(PANEL):
        best = kl.maximum(best, largest[j])
    field = power_bits(kl.workgroup_reduce(kl.maximum, best), TARGET)
    kl.barrier()
    for r in kl.workgroup_range(m):
        for i in kl.static_range(PANEL // LANES):
            row = kl.vload(w, r, i * LANES, lanes=LANES)
            kl.vstore(w, r, i * LANES, scaled(row, field, 1))
    kl.barrier()
    return field


@function
def add_products(w: kl.Array, r: kl.Scalar, k: kl.Scalar, sums: kl.Array, LANES: int) -> None:
    """Adds a row's part of the products of column `k`, conjugated, with all columns."""
    x = conjugate(w[r, k])
    for i in kl.static_range(sums.shape[0]):
        sums[i] = sums[i] + x * kl.vload(w, r, i * LANES, lanes=LANES)


@function
def added(x: tuple[kl.Scalar, ...], y: tuple[kl.Scalar, ...]) -> Any:
    """Sums of tuples."""
    return tuple([x[i] + y[i] for i in range(len(x))])


@function
def totals_of(sums: kl.Array, out: kl.Array, LANES: int) -> None:
    """What all work-items have added up, number by number."""
    if LANES > 1:
        for i in kl.static_range(sums.shape[0]):
            kl.vstore(out, i * LANES, sums[i])
    else:
        sums_of_all = kl.workgroup_reduce(added, tuple([sums[i] for i in range(sums.shape[0])]))
        for i in kl.static_range(sums.shape[0]):
            out[i] = sums_of_all[i]


@function
def reflector_of(alpha: kl.Scalar, tail: kl.Scalar) -> Any:
    """``(beta, tau, factor)`` of ``I - tau v v^H``, whose adjoint maps x to ``(beta, 0, ..., 0)``.

    `alpha` is the first number of x and `tail` the sum of the squares of the others; v is 1 and
    the others times `factor`. Beta is real (LAPACK's ?larfg).
    """
    small = 2.0**-900 if tail.dtype == kl.f64 else 2.0**-100
    beta, tau, factor = alpha, alpha * 0, alpha * 0
    size = tail
    if alpha.dtype.is_complex:
        size = tail + kl.imag(alpha) * kl.imag(alpha)
    if size > small or size != size:
        real = -kl.copysign(kl.sqrt(kl.real(alpha) * kl.real(alpha) + size), kl.real(alpha))
        beta = kl.cast(real, alpha.dtype)
        tau = (beta - alpha) / beta
        factor = 1 / (alpha - beta)
    return beta, tau, factor


@function
def reflect(
    w: kl.Array, sums: kl.Array, factor: kl.Array, where: tuple[kl.Scalar, ...], LAYOUT: Layout
) -> None:
    """The reflector of column `k` of `m` rows, applied to the columns after it.

    `sums` are a work-item's part of the products of the column's tail, and become those of the
    next column's. Column `k` of T goes to `factor`, each row of it written and read by one
    work-item alone.
    """
    k, m = where
    PANEL, LANES, kind = LAYOUT.panel, LAYOUT.lanes, w.dtype
    totals, shares = kl.private(PANEL, kind), kl.private(PANEL, kind)
    totals_of(sums, totals, LANES)
    kl.barrier()
    beta, tau, scale = reflector_of(w[k, k], kl.real(totals[k]))
    for j in kl.static_range(PANEL):
        totals[j] = w[k, j] + conjugate(scale) * totals[j]
        shares[j] = kl.where(j > k, conjugate(tau) * totals[j], kl.cast(0, kind))
    put_column(factor, totals, tau, k)
    kl.barrier()
    if kl.local_id(0) == 0:
        for j in kl.static_range(PANEL):
            w[k, j] = kl.where(j == k, beta, w[k, j] - shares[j])
    after = kl.minimum(k + 1, PANEL - 1)
    for i in kl.static_range(PANEL // LANES):
        sums[i] = kl.splat(kl.cast(0, kind), LANES)
    # In chains of bounded length, so that sums do not drift.
    for begin in range(k + 1, m, _CHAIN * kl.local_size(0)):
        chain = kl.private(PANEL // LANES, kind, lanes=LANES, fill=0)
        for r in kl.workgroup_range(begin, kl.minimum(begin + _CHAIN * kl.local_size(0), m)):
            x = scale * w[r, k]
            following = conjugate(w[r, after] - x * shares[after])
            for i in kl.static_range(PANEL // LANES):
                share = kl.vload(shares, i * LANES, lanes=LANES)
                row = kl.vload(w, r, i * LANES, lanes=LANES) - x * share
                row = kl.where(columns_from(i * LANES, LANES) == k, kl.splat(x, LANES), row)
                kl.vstore(w, r, i * LANES, row)
                if r > k + 1:  # the first row below is the next column's own
                    chain[i] = chain[i] + following * row
        for i in kl.static_range(PANEL // LANES):
            sums[i] = sums[i] + chain[i]


@function
def put_column(factor: kl.Array, products: Any, tau: kl.Scalar, k: kl.Scalar) -> None:
    """Column `k` of T from the products of the reflectors before with this one."""
    PANEL = factor.shape[0]
    for i in kl.workgroup_range(PANEL):
        total = kl.cast(0, factor.dtype)
        for j in range(k):
            if j >= i:
                total = total + factor[i, j] * conjugate(products[j])
        factor[i, k] = kl.where(i == k, tau, -tau * total)
