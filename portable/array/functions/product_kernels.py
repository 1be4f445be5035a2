"""Products of matrices that `portable.linalg.gemm` does not take, and of vectors of three."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.linalg.products.kernels import matrix_of
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

__all__ = ["cross_products", "plain_product"]


@kernel
def plain_product(a: Any, b: Any, out: Any, *, ACC: Any) -> None:
    """A work-item per element, for the dtypes that `gemm` does not take."""
    column, row, batch = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    left, right, result = [matrix_of(x, out, batch) for x in (a, b, out)]
    if (row < result.shape[0]) & (column < result.shape[1]):
        total = kl.cast(0, ACC)
        for k in range(left.shape[1]):
            total = total + kl.cast(left[row, k], ACC) * kl.cast(right[k, column], ACC)
        result[row, column] = total


@kernel(contract=False)
def cross_products(x: Any, y: Any, out: Any, *, KIND: Any) -> None:
    """A work-item per vector of three along the last axis."""
    row = kl.global_id(0)
    lead = out.shape[: out.ndim - 1]
    if row < product_of(lead):
        outer = unravelled(row, lead)
        for i in kl.static_range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            plus = kl.cast(x[*outer, j], KIND) * kl.cast(y[*outer, k], KIND)
            out[*outer, i] = plus - kl.cast(x[*outer, k], KIND) * kl.cast(y[*outer, j], KIND)
