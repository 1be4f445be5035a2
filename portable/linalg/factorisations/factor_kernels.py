"""The kernel that puts the factors of diagonal blocks in their place."""

from __future__ import annotations

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.linalg.base.parts import conjugate
from portable.linalg.factorisations.copy_kernels import matrix_at
from portable.linalg.factorisations.layout import Layout


@kernel
def put_factors(
    factors: kl.Array, out: kl.Array, lead: tuple[kl.Scalar, ...], *, LAYOUT: Layout, TURNED: bool
) -> None:
    """Diagonal blocks of `out` become `factors`; `TURNED`: their conjugate transposes."""
    EDGE, blocks = LAYOUT.block, factors.shape[1]
    batch, number = kl.group_id(0) // blocks, kl.group_id(0) % blocks
    matrix, first = matrix_at(out, lead, batch), number * EDGE
    for index in kl.workgroup_range(EDGE * EDGE):
        i, j = index // EDGE, index % EDGE
        if first + i < matrix.shape[0] and first + j < matrix.shape[1]:
            if TURNED:
                matrix[first + i, first + j] = conjugate(factors[batch, number, j, i])
            else:
                matrix[first + i, first + j] = factors[batch, number, i, j]
