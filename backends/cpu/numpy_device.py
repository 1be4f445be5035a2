"""Devices whose arrays are NumPy's: what they share, and a processor through an OpenCL runtime.

Launches are finished when they return, since NumPy reads and writes the same memory at once.
Ctrl-C during a kernel's first launch on an OpenCL runtime, or after one that was long, takes effect
when it returns, or two seconds later (`gate`): OpenCL ends no kernel that runs, and the memory must
not go away beneath it. During other launches it takes effect when they return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

import numpy as np

from portable.backend import ArrayView, Device, MemoryUse, ViewCode, bytes_of
from portable.backend.queues import HostMark, Mark
from portable.dtypes import DType
from portable.errors import DeviceMismatchError, OutOfMemoryError
from portable_backends.common.addresses import address_of
from portable_backends.common.devices import host_memory_use
from portable_backends.opencl.backend import RuntimeDevice

_DLPACK_CPU: Final = 1

_LARGE: Final = 1 << 14
"""Bytes from which on arrays begin where lines of the caches do.

NumPy's begin 16 bytes behind, so that each vector of 64 lies in two lines, and none of a result may
pass the caches by. To make smaller ones so would be noticed: it takes 1 us instead of 0.2.
"""

_LINE: Final = 64


class HostMemory(Protocol):
    """How kernels see NumPy arrays."""

    def view(self, array: np.ndarray[Any, Any]) -> ArrayView:
        """Describe an array in place."""

    def view_code(self, array: np.ndarray[Any, Any]) -> ViewCode | None:
        """How compiled code sees arrays like this one."""

    def behind(self, handle: Any, by: int) -> Any:
        """What kernels take for so many bytes behind a handle."""


def _on_a_line(shape: tuple[int, ...], kind: Any, size: int) -> np.ndarray[Any, Any]:
    """An array in memory of its own that begins where a line of the caches does."""
    memory = np.empty(size + _LINE, np.uint8)
    return np.ndarray(shape, kind, memory, -address_of(memory) % _LINE)


class NumPyDevice(Device):
    """A device that works in the memory of NumPy's arrays, its launches finished on return."""

    backend = "cpu"
    _memory: HostMemory

    def owns(self, array: object) -> bool:
        """Whether this is a NumPy array."""
        return isinstance(array, np.ndarray)

    def view(self, array: Any) -> ArrayView:
        """Describe a NumPy array in place."""
        return self._memory.view(array)

    def view_code(self, array: Any) -> ViewCode | None:
        """How compiled code sees a NumPy array."""
        return self._memory.view_code(array)

    def behind(self, handle: Any, by: int) -> Any:
        """A later address, on devices that take addresses."""
        return self._memory.behind(handle, by)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """A new NumPy array, which begins where a line of the caches does unless it is small."""
        size = bytes_of(shape, dtype.itemsize)
        try:
            if size < _LARGE:
                return np.empty(shape, dtype.numpy)
            return _on_a_line(shape, dtype.numpy, size)
        except MemoryError as error:
            raise OutOfMemoryError(f"no room for {shape} of {dtype}") from error

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any]:
        """What makes arrays as `empty` does, whose size is known to be right."""
        size = bytes_of(shape, dtype.itemsize)
        if size < _LARGE:
            return partial(np.empty, shape, dtype.numpy)
        return partial(_on_a_line, shape, dtype.numpy, size)

    def from_numpy(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A contiguous copy, which begins as those of `empty` do."""
        if array.nbytes < _LARGE or array.dtype.hasobject:
            return np.array(array, order="C")
        copy = _on_a_line(array.shape, array.dtype, array.nbytes)
        np.copyto(copy, array)
        return copy

    def to_numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """A contiguous copy."""
        return np.array(array, order="C")

    def memory(self) -> MemoryUse:
        """Of the machine."""
        return host_memory_use()

    def mark(self) -> Mark:
        """The host's clock: this thread's work is done."""
        return HostMark()

    def namespace(self) -> Any:
        """NumPy by the Array API's names."""
        import array_api_compat.numpy

        return array_api_compat.numpy

    def adopt(self, array: Any) -> np.ndarray[Any, Any]:
        """A NumPy array over another library's host memory."""
        from portable_backends.common.devices import device_type, to_numpy_view

        if device_type(array) != _DLPACK_CPU:
            raise DeviceMismatchError(
                f"{type(array).__module__}.{type(array).__name__} is not in host memory, so "
                f"{self.name} cannot share it; copy it with portable.asarray(x, device=...)"
            )
        return to_numpy_view(array)


class CPUDevice(NumPyDevice, RuntimeDevice):
    """A processor through one OpenCL runtime.

    Parameters
    ----------
    device : pyopencl.Device
        The runtime's device.
    name : str
        The full name, such as ``"cpu:intel"``.
    """

    def __init__(self, device: Any, name: str) -> None:
        from portable_backends.common.host_memory import memory_of
        from portable_backends.opencl.capabilities import capabilities_of, words_of
        from portable_backends.opencl.runtime import Runtime

        plain = capabilities_of(device)
        shared = bool(device.svm_capabilities & _fine_grain_system())
        self.name = name
        self.words = words_of(device) | {"numpy"}
        self.capabilities = replace(
            plain,
            unified_memory=True,
            streams=False,
            pointer_offsets=not shared,
            compressed_bytes=lambda: plain.compressed_bytes,
        )
        self._runtime = Runtime(device, self.capabilities, name, blocking=True)
        largest = self.capabilities.max_allocation
        self._memory = memory_of(device, self._runtime.context, largest)


def _fine_grain_system() -> int:
    import pyopencl as cl

    return int(cl.device_svm_capabilities.FINE_GRAIN_SYSTEM)
