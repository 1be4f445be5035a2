"""Several copies in one launch."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

__all__ = ["copy_several"]


@function
def copied(x: Any, out: Any, kind: Any, CHUNK: Any) -> None:
    """``out = x``, `CHUNK` elements by each work-item."""
    start = kl.global_id(0) * CHUNK
    for n in range(start, kl.minimum(start + CHUNK, product_of(out.shape))):
        at = unravelled(n, out.shape)
        out[*at] = x[*at] if kind is None else kl.cast(x[*at], kind)


@kernel
def copy_several(
    x0: Any,
    x1: Any,
    x2: Any,
    x3: Any,
    out0: Any,
    out1: Any,
    out2: Any,
    out3: Any,
    *,
    KINDS: Any,
    CHUNK: int,
) -> None:
    """``out0 = x0``, ``out1 = x1``, ...: as many as there are `KINDS`, the others being None.

    Each is the work of the workgroups of one place along dimension 1 of the ndrange.
    """
    which = kl.global_id(1)
    sources, targets = (x0, x1, x2, x3), (out0, out1, out2, out3)
    for i in kl.static_range(len(KINDS)):
        if which == i:
            copied(sources[i], targets[i], KINDS[i], CHUNK)
