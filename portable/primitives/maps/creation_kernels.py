"""Arithmetic progressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import Body, lane_numbers


@function
def counted(i: kl.Scalar, start: kl.Scalar, step: kl.Scalar, KIND: Any) -> Any:
    """Element `i` of an arithmetic progression."""
    return start + kl.cast(i, KIND) * step


@function
def counted_down(i: kl.Scalar, start: kl.Scalar, step: kl.Scalar, KIND: Any) -> Any:
    """The same, rounded down."""
    return kl.floor(counted(i, start, step, KIND))


@dataclass(frozen=True)
class _Progression(Body):
    """What a sweep does to neighbours of a line."""

    op: Any
    start: Any
    step: Any
    out: Any
    kind: Any

    def do(self, outer: Any, row: Any, j: kl.Scalar, lanes: int) -> None:
        """Works them out."""
        i = lane_numbers(self.kind, lanes) + kl.cast(j, self.kind) if lanes > 1 else j
        value = self.op(i, self.start, self.step, self.kind)
        kl.vstore(self.out, *outer, j, kl.cast(value, self.out.dtype))


@kernel(contract=False)
def spaced(
    start: kl.Scalar,
    step: kl.Scalar,
    last: kl.Scalar | None,
    out: kl.Array,
    *,
    OP: Any,
    KIND: Any,
    SHARE: Any,
) -> None:
    """An arithmetic progression.

    Parameters
    ----------
    start, step : number
        The first element, and the gap between two.
    last : number or None
        The last element; None for that of the formula.
    out : array
        The result, of one dimension.
    OP : Function
        `counted` or `counted_down`.
    KIND : DType
        In which to compute.
    SHARE : Share
        How work-items share the elements.
    """
    SHARE.sweep(out.shape, _Progression(OP, start, step, out, KIND))
    end = out.shape[0] - 1
    if last is not None and kl.global_id(0) == end // SHARE.chunk:
        out[end] = kl.cast(last, out.dtype)
