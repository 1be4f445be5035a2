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
def copy_several(sources: Any, targets: Any, *, KINDS: Any, CHUNK: int) -> None:
    """``targets[n] = sources[n]``, in the types of `KINDS`.

    Each is the work of the workgroups of one place along dimension 1 of the ndrange.
    """
    which = kl.global_id(1)
    for i in kl.static_range(len(KINDS)):
        if which == i:
            copied(sources[i], targets[i], KINDS[i], CHUNK)
