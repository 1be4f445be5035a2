"""Parameters of an earlier epoch, kept on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from portable.backend import Device
from portable.dtypes import bfloat16, dtype
from portable.linalg.base.magnitude import largest_magnitude
from portable.primitives import copy

if TYPE_CHECKING:
    from portable.nn.network import Network


_LARGEST: Final = {bfloat16: (2 - 2.0**-7) * 2.0**127}
"""Finite numbers of types that NumPy does not know the limits of."""


class Checkpoint:
    """A copy of a network's parameters and buffers, made when first needed.

    Attributes
    ----------
    epoch : int or None
        The epoch (from 0) after which they were taken, -1 before the first; None: never.
    """

    def __init__(self, model: Network) -> None:
        self.epoch: int | None = None
        self._model = model
        self._kept: Any = None

    def take(self, epoch: int) -> None:
        """Keeps the parameters as they are now."""
        model = self._model
        if self._kept is None:
            vectors = model.vector, model.buffers
            self._kept = [model.device.empty(tuple(v.shape), dtype(v.dtype)) for v in vectors]
        for vector, kept in zip((model.vector, model.buffers), self._kept, strict=True):
            copy(vector, kept)
        self.epoch = epoch

    def restore(self) -> None:
        """Gives the network the parameters that were taken."""
        assert self.epoch is not None
        for vector, kept in zip((self._model.vector, self._model.buffers), self._kept, strict=True):
            copy(kept, vector)


def largest(device: Device, *arrays: Any) -> float:
    """The largest magnitude in arrays, on the host; NaN if there is one."""
    return float(device.to_numpy(largest_magnitude(device, *arrays))[0])


def may_overflow(model: Network, parameter: float, given: float) -> bool:
    """Whether a loss may be beyond the network's dtype, by a bound that no value goes through.

    Parameters
    ----------
    model : Network
        The network; what its activations are, and so that they may be bounded, is not asked.
    parameter, given : float
        The largest magnitude of its parameters, and of inputs and targets.
    """
    bound = given
    for layer in model.layers:
        bound = max(bound, layer.bound(parameter, bound))
    most = _LARGEST.get(model.dtype) or float(np.finfo(model.dtype.numpy).max)
    return not (bound + given) ** 2 < most if bound < most else True
