"""The kernel that reduces matrices to bidiagonal form and keeps the reflectors."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.linalg.singular_values.direct_kernels import (
    DirectShape,
    KeptReflectors,
    Scratch,
    make_steps,
)

__all__ = ["bidiagonalize_keeping"]


@kernel
def bidiagonalize_keeping(
    a: Any,
    scratch: Scratch,
    d: Any,
    e: Any,
    kept: KeptReflectors,
    first: Any,
    last: Any,
    *,
    SHAPE: DirectShape,
) -> None:
    """As `bidiagonalize`; each array has a first dimension, of the matrices: dimension 1."""
    own = kl.group_id(1)
    sums = None if scratch.sums is None else scratch.sums[own]
    merged = None if scratch.merged is None else scratch.merged[own]
    mine = Scratch(scratch.left[own], scratch.right[own], sums, scratch.totals[own], merged)
    reflectors = KeptReflectors(kept.rows[own], kept.taus[own], kept.factors[own])
    make_steps(a[own], mine, (d[own], e[own]), reflectors, first, last, SHAPE)
