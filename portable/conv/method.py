"""What every way of convolving supplies."""

from __future__ import annotations

from typing import Any, Final, Protocol

from portable.backend import Device
from portable.dtypes import DType
from portable.lang.function import Function

__all__ = ["Method", "most_workspace"]

_LEAST: Final = 2**28
_MOST: Final = 2**30
_SHARE: Final = 64


def most_workspace(device: Device) -> int:
    """Bytes of workspace that are asked for where none are given; beyond, work is in batches."""
    return max(_LEAST, min(_MOST, device.capabilities.global_memory // _SHARE))


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
        """Makes results `out` of images `x`, both in the layout that it was made for."""
