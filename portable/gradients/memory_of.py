"""Arrays by the memory that they are: the same object or not."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from portable.backend import Device
from portable.dtypes import dtype
from portable.errors import DTypeError
from portable.lang.arguments.arguments import byte_range
from portable.namespace import device_of, on_device


class Memory(NamedTuple):
    """Which memory an array is.

    Attributes
    ----------
    owner : object
        The address space that addresses count in.
    address : int
    shape, strides : tuple of int
    dtype : str
    low, high : int
        Its first byte and the one after its last.
    itemsize : int
        Bytes of an element.
    """

    owner: Any
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    low: int
    high: int
    itemsize: int

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements lie one after the other in C order."""
        steps = [step for step, n in zip(self.strides, self.shape, strict=True) if n > 1]
        dense = self.high - self.low == prod(self.shape) * self.itemsize
        return dense and all(a >= b >= 0 for a, b in pairwise((*steps, 0)))

    def covers(self, other: Memory) -> bool:
        """Whether it holds all bytes of another one."""
        inside = self.low <= other.low and other.high <= self.high
        return self.owner == other.owner and inside and self.is_contiguous

    def overlaps(self, other: Memory) -> bool:
        """Whether they share bytes."""
        return self.owner == other.owner and self.low < other.high and other.low < self.high


def memory_of(x: Any) -> Memory:
    """That of an array of any library."""
    if isinstance(x, np.ndarray):
        low, high = np.lib.array_utils.byte_bounds(x) if x.size else (0, 0)
        address = x.__array_interface__["data"][0]
        return Memory("host", address, x.shape, x.strides, str(x.dtype), low, high, x.itemsize)
    device: Device = device_of(x)
    view = device.view(x if device.owns(x) else on_device(device, x))
    low, high = byte_range(view)
    low, high = (view.address + low, view.address + high) if low < high else (0, 0)
    owner, kind = (device.name, view.owner), view.dtype
    return Memory(
        owner, view.address, view.shape, view.strides, str(kind), low, high, kind.itemsize
    )


def is_real(x: Any) -> bool:
    """Whether an array holds floating-point numbers, complex ones among them."""
    try:
        return dtype(x.dtype).real.is_float
    except DTypeError:
        return False
