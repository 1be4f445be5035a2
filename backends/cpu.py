"""The processor: NumPy arrays, and kernels on an OpenCL runtime that works in their memory.

Launches are finished when they return, since NumPy reads and writes the same memory at once.
Ctrl-C during a kernel's first launch, or after one that was long, takes effect when it returns, or
two seconds later (`listening`): OpenCL ends no kernel that runs, and the memory must not go away
beneath it. During other launches it takes effect when they return.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portable.backend import (
    ArrayView,
    Backend,
    Device,
    MemoryUse,
    Unavailable,
    ViewCode,
    bytes_of,
)
from portable.dtypes import DType
from portable.errors import DeviceMismatchError, OutOfMemoryError
from portable.queues import HostMark, Mark
from portable_backends.host_use import host_memory_use
from portable_backends.runtime_device import RuntimeDevice

__all__ = ["CPUBackend", "CPUDevice"]

_DLPACK_CPU = 1
_PREFERENCE = ("intel", "pocl")

_LARGE = 1 << 14
"""Bytes from which on arrays begin where lines of the caches do.

NumPy's begin 16 bytes behind, so that each vector of 64 lies in two lines, and none of a result may
pass the caches by. To make smaller ones so would be noticed: it takes 1 us instead of 0.2.
"""


class CPUDevice(RuntimeDevice):
    """A processor through one OpenCL runtime.

    Parameters
    ----------
    device : pyopencl.Device
        The runtime's device.
    name : str
        The full name, such as ``"cpu:intel"``.
    """

    backend = "cpu"

    def __init__(self, device: Any, name: str) -> None:
        import dataclasses

        from portable_backends.host_memory import memory_of, on_a_line
        from portable_backends.opencl_capabilities import capabilities_of, words_of
        from portable_backends.opencl_runtime import Runtime

        self._on_a_line = on_a_line
        plain = capabilities_of(device)
        shared = bool(device.svm_capabilities & _fine_grain_system())
        self.name = name
        self.words = words_of(device) | {"numpy"}
        self.capabilities = dataclasses.replace(
            plain,
            unified_memory=True,
            streams=False,
            pointer_offsets=not shared,
            compressed_bytes=lambda: plain.compressed_bytes,
        )
        self._runtime = Runtime(device, self.capabilities, name, blocking=True)
        largest = self.capabilities.max_allocation
        self._memory = memory_of(device, self._runtime.context, largest)

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
        """A later address, on runtimes that take addresses."""
        return self._memory.behind(handle, by)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """A new NumPy array, which begins where a line of the caches does unless it is small."""
        size = bytes_of(shape, dtype.itemsize)
        try:
            if size < _LARGE:
                return np.empty(shape, dtype.numpy)
            return self._on_a_line(shape, dtype.numpy, size)
        except MemoryError as error:
            raise OutOfMemoryError(f"no room for {shape} of {dtype}") from error

    def from_numpy(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A contiguous copy, which begins as those of `empty` do."""
        if array.nbytes < _LARGE or array.dtype.hasobject:
            return np.array(array, order="C")
        copy = self._on_a_line(array.shape, array.dtype, array.nbytes)
        np.copyto(copy, array)
        return copy

    def to_numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """A contiguous copy."""
        return np.array(array, order="C")

    def synchronize(self) -> None:
        """Wait for other threads' launches; this thread's own are finished already."""
        self._runtime.synchronize()

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
        from portable_backends.dlpack import device_type, to_numpy_view

        if device_type(array) != _DLPACK_CPU:
            raise DeviceMismatchError(
                f"{type(array).__module__}.{type(array).__name__} is not in host memory, so "
                f"{self.name} cannot share it; copy it with portable.asarray(x, device=...)"
            )
        return to_numpy_view(array)


def _fine_grain_system() -> int:
    import pyopencl as cl

    return int(cl.device_svm_capabilities.FINE_GRAIN_SYSTEM)


class CPUBackend(Backend):
    """NumPy arrays with kernels on Intel's runtime, or PoCL, or any other OpenCL CPU driver."""

    name = "cpu"

    def __init__(self) -> None:
        self._reason = ""

    def devices(self) -> Sequence[Device]:
        """One device per runtime, Intel's first."""
        try:
            from portable_backends.opencl_capabilities import is_cpu, platform_word
            from portable_backends.opencl_runtime import find, why_none
        except ImportError as error:
            self._reason = f"PyOpenCL cannot be imported ({error})"
            return ()
        found = {platform_word(d): d for d in reversed(find()) if is_cpu(d)}
        found.pop("oclgrind", None)
        order = sorted(found, key=lambda w: (*_PREFERENCE, w).index(w))
        self._reason = why_none("no OpenCL runtime for this processor was found")
        return [CPUDevice(found[word], f"cpu:{word}") for word in order]

    def unavailable(self) -> Unavailable:
        """Which runtimes to install."""
        return Unavailable("cpu", self._reason, "pip install 'portable-arrays[cpu]'")

    def array_types(self) -> tuple[str, ...]:
        """NumPy's."""
        return ("numpy",)
