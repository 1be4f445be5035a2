"""The array libraries that ours are compared with, those that exist for a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from portable import registry
from portable.backend import Device
from portable.dtypes import DType, float16
from portable.errors import BackendUnavailableError, DeviceError

__all__ = ["Peer", "libraries"]

_NAMES: Final = {"cuda": "cuBLAS", "rocm": "rocBLAS", "sycl": "oneMKL"}


@dataclass(frozen=True, slots=True)
class Peer:
    """A library on the same hardware.

    Attributes
    ----------
    name : str
        As the report shows it.
    namespace : object
        With `matmul` and the like.
    device : Device or None
        Through which it is used; None for NumPy.
    """

    name: str
    namespace: Any
    device: Device | None


def libraries(device: Device, dtype: DType) -> list[Peer]:
    """The device's own library, and NumPy for a processor, in the order of preference."""
    can = device.capabilities
    found: list[Peer | None] = [_through(device)] if device.backend in _NAMES else []
    if can.kind == "gpu" and can.vendor == "nvidia" and device.backend != "cuda":
        found.append(_named("cuda"))
    if can.kind == "cpu" and dtype is not float16:
        found.append(Peer("NumPy", np, None))
    elif can.kind == "cpu" and device.backend != "sycl":
        # NumPy multiplies half precision an element at a time.
        found.append(_named("sycl:cpu"))
    return [peer for peer in found if peer is not None]


def _through(device: Device) -> Peer:
    return Peer(_NAMES[device.backend], device.namespace(), device)


def _named(name: str) -> Peer | None:
    try:
        return _through(registry.device(name))
    except (BackendUnavailableError, DeviceError):
        return None
