"""What all ways of convolving have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from portable.backend import Device
from portable.conv.direct.box_kernels import arrange
from portable.conv.geometry import Geometry, Layout
from portable.conv.layouts import as_nchw
from portable.dtypes import DType, float32
from portable.lang.function import Function
from portable.linalg.products.kernels import keep, relu
from portable.tune.space import Parameters

Split = Literal[False, "first", "exact", "given"]

_LEAST: Final = 2**28
_MOST: Final = 2**30
_SHARE: Final = 64


def most_workspace(device: Device) -> int:
    """Bytes of workspace that are asked for where none are given; beyond, work is in batches."""
    return max(_LEAST, min(_MOST, device.capabilities.global_memory // _SHARE))


@lru_cache(maxsize=1024)
def activated(plan: Any, activation: Function) -> Any:
    """A plan with what becomes of results: one object for the same, which launches recognise."""
    lanes = {"lanewise": activation in (keep, relu)} if "lanewise" in plan._fields else {}
    return plan._replace(activation=activation, **lanes)


class Epilogue(NamedTuple):
    """What is done to sums on their way to memory: ``activation(sum + bias + residual)``.

    Attributes
    ----------
    bias : array, shape (K,), or None
    activation : Function
        Of one number.
    residual : array of the results' shape and layout, or None
    """

    bias: Any = None
    activation: Function = keep
    residual: Any = None

    @property
    def is_empty(self) -> bool:
        """Whether sums are stored as they are."""
        return self.bias is None and self.activation is keep and self.residual is None

    def of_images(self, images: slice) -> Epilogue:
        """The same for some of the images."""
        if self.residual is None:
            return self
        return self._replace(residual=self.residual[images])

    def residual_nchw(self, device: Device, layout: Layout) -> Any:
        """The residual seen as (N, K, H, W), or None."""
        return None if self.residual is None else as_nchw(device, self.residual, layout)


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
    split : False, "first", "exact" or "given"
        Whether matrix units multiply single precision, as of `Tiling`.
    """

    device: Device
    shape: Geometry
    kind: DType
    layout: Layout
    choice: Parameters | None = None
    split: Split = False

    @property
    def splits(self) -> Split:
        """How matrix units multiply; False where there are none, or factors are narrow."""
        units = "mma.tf32" in self.device.capabilities.matrix_units
        return self.split if units and self.kind is float32 else False

    @property
    def workspace_kind(self) -> DType:
        """The dtype of a workspace's elements."""
        return self.kind

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace to ask for, and the fewest that are of use; 0 where it needs none.

        With fewer than it asks for, it works in batches.
        """
        return 0, 0

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Filters as `run` wants them.

        Parameters
        ----------
        w : array, shape (K, C / groups, R, S), or (C, K / groups, R, S) where `turned`
        turned : bool
            Whether they are those of a convolution from K to C channels, of which this one makes
            the gradient by images.
        """
        return self.turned_filters(w) if turned else w

    def turned_filters(self, w: Any) -> Any:
        """Filters (K, C / groups, R, S) of those of a convolution from K to C channels."""
        shape, space = self.shape, self.device.namespace()
        depth, each = shape.channels // shape.groups, shape.filters // shape.groups
        room = self.device.empty((shape.groups, each, depth, shape.window.count), self.kind)
        view = space.permute_dims(room, (3, 2, 0, 1))
        arrange(w, view, each, turned=True)
        return space.reshape(room, (shape.filters, depth, *w.shape[2:]))

    @abstractmethod
    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results `out` of images `x`, both in its layout."""
