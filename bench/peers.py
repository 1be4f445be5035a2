"""Who ours are compared with: the array libraries and others that exist for a case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from portable import registry
from portable.backend import Device
from portable.dtypes import DType, float16
from portable.errors import BackendUnavailableError, DeviceError
from portable_bench.operation import Case, Contender, Prepare

Peers = Sequence[Contender]

_LIBRARIES: Final = {"cuda": "CuPy", "rocm": "CuPy", "sycl": "dpnp", "opencl": "portable.array"}
_VENDORS: Final = {"nvidia": "cuda", "amd": "rocm", "intel": "sycl:gpu"}
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})

PRODUCTS: Final = {"cuda": "cuBLAS", "rocm": "rocBLAS", "sycl": "oneMKL"}
"""What multiplies matrices beneath the array libraries, for `in_libraries`."""


@dataclass(frozen=True, slots=True)
class Library:
    """An array library on the same hardware, and the device through which; None: NumPy's own."""

    namespace: Any
    device: Device | None

    @property
    def backend(self) -> str:
        """The backend of its device, NumPy's being "cpu"."""
        return self.device.backend if self.device else "cpu"


def peer(case: Case, name: str, prepare: Prepare) -> Contender:
    """A peer that takes arrays of the case's device.

    Parameters
    ----------
    case : Case
    name : str
        What the report calls it.
    prepare : callable
        Makes a run of the case's arrays.
    """
    return Contender(name, prepare, case.device, peer=True)


def on_host(case: Case, name: str, prepare: Prepare) -> list[Contender]:
    """A peer that takes NumPy's arrays, not in half precision, where the device is a processor.

    Parameters
    ----------
    case, name, prepare
        As of `peer`.
    """
    if case.device.capabilities.kind != "cpu" or case.dtype is float16:
        return []
    return [Contender(name, prepare, None, peer=True)]


def own_library(case: Case, prepare: Prepare) -> list[Contender]:
    """The array library of the device; `prepare` takes its namespace before the inputs."""
    name = _LIBRARIES.get(case.device.backend, "NumPy")
    return [peer(case, name, partial(prepare, case.device.namespace()))]


def in_libraries(
    case: Case, prepare: Prepare, names: Mapping[str, str] = _NO_NAMES
) -> list[Contender]:
    """The array libraries on the case's hardware, in the order of preference.

    Parameters
    ----------
    case : Case
        What is to be solved.
    prepare : callable
        Takes the library's namespace before the inputs.
    names : dict
        By backend ("cpu" for NumPy), where another name tells more than the library's.
    """
    known = {**_LIBRARIES, "cpu": "NumPy", **names}
    return [
        Contender(known[x.backend], partial(prepare, x.namespace), x.device, peer=True)
        for x in _libraries(case.device, case.dtype)
    ]


def library_beside(device: Device, dtype: DType) -> Library | None:
    """The array library that is preferred on the hardware of a device, not its own arrays'.

    Parameters
    ----------
    device : Device
        Ours; on a processor the peer is NumPy.
    dtype : DType
        Of the arrays.
    """
    if device.capabilities.kind == "cpu":
        return Library(np, None)
    return next(iter(_libraries(device, dtype)), None)


def _libraries(device: Device, dtype: DType) -> list[Library]:
    can = device.capabilities
    if can.kind == "cpu":
        libraries = [_through(device)] if device.backend == "sycl" else []
        if dtype is not float16:
            return [*libraries, Library(np, None)]
        # NumPy multiplies half precision an element at a time.
        return libraries or _named("sycl:cpu")
    if device.backend in ("cuda", "rocm", "sycl"):
        return [_through(device)]
    return _named(_VENDORS[can.vendor]) if can.vendor in _VENDORS and can.kind == "gpu" else []


def _through(device: Device) -> Library:
    return Library(device.namespace(), device)


def _named(name: str) -> list[Library]:
    try:
        return [_through(registry.device(name))]
    except (BackendUnavailableError, DeviceError):
        return []
