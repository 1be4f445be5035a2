"""What all ways of convolving have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final

from portable.backend import Device
from portable.conv.geometry import Geometry, Layout
from portable.dtypes import DType
from portable.lang.function import Function
from portable.tune.space import Parameters

__all__ = ["Method", "most_workspace"]

_LEAST: Final = 2**28
_MOST: Final = 2**30
_SHARE: Final = 64


def most_workspace(device: Device) -> int:
    """Bytes of workspace that are asked for where none are given; beyond, work is in batches."""
    return max(_LEAST, min(_MOST, device.capabilities.global_memory // _SHARE))


@dataclass(frozen=True)
class Method(ABC):
    """A way to convolve images of one shape and dtype with filters, on one device.

    Attributes
    ----------
    device : Device
    shape : Geometry
    kind : DType
        Of images, filters and results.
    layout : {"NCHW", "NHWC"}
        Of images and results.
    choice : mapping, optional
        What to use instead of the table of tuned parameters.
    """

    device: Device
    shape: Geometry
    kind: DType
    layout: Layout
    choice: Parameters | None = None

    @property
    def workspace_kind(self) -> DType:
        """The dtype of a workspace's elements."""
        return self.kind

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace to ask for, and the fewest that are of use; 0 where it needs none.

        With fewer than it asks for, it works in batches.
        """
        return 0, 0

    def filters(self, w: Any) -> Any:
        """Filters (K, C / groups, R, S) as `run` wants them."""
        return w

    @abstractmethod
    def run(
        self, x: Any, filters: Any, out: Any, bias: Any, activation: Function, workspace: Any
    ) -> None:
        """Makes results `out` of images `x`, both in its layout."""
