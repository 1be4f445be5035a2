"""Activations that follow no layer which would apply them itself."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.nn.layers.layer import Flow
from portable.nn.stages import slope_kernels as kernels
from portable.nn.stages.stage import Stage

__all__ = ["ActivationStage"]

_WORKGROUP: Final = 64


class ActivationStage(Stage):
    """A function of each number."""

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """A work-item for each number."""
        assert self.place.activation is not None
        kernels.apply[prod(y.shape), _WORKGROUP](
            self._matrix(x), self._matrix(y), None, FUNCTION=self.place.activation.function
        )

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """A work-item for each number."""
        assert self.place.activation is not None
        if flow.dx is not None:
            at = flow.y if self.place.activation.by_value else flow.x
            kernels.apply[prod(flow.y.shape), _WORKGROUP](
                self._matrix(at),
                self._matrix(flow.dx),
                self._matrix(flow.dy),
                FUNCTION=self.place.activation.slope,
            )

    def _matrix(self, x: Any) -> Any:
        if x.ndim == 2:
            return x
        return self.place.device.namespace().reshape(x, (x.shape[0], prod(x.shape[1:])))
