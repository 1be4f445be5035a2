"""What every way of convolving supplies."""

from __future__ import annotations

from typing import Any, Protocol

from portable.dtypes import DType
from portable.lang.function import Function

__all__ = ["Method"]


class Method(Protocol):
    """A way to convolve images of one shape and dtype with filters, on one device."""

    @property
    def workspace_kind(self) -> DType:
        """The dtype of a workspace's elements."""

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace to ask for, and the fewest that are of use; 0 where it needs none.

        With fewer than it asks for, it works in batches.
        """

    def filters(self, w: Any) -> Any:
        """Filters (K, C / groups, R, S) as `run` wants them."""

    def run(
        self, x: Any, filters: Any, out: Any, bias: Any, activation: Function, workspace: Any
    ) -> None:
        """Makes results `out` of images `x`, both seen as (N, C, H, W)."""
