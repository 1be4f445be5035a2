"""A processor through an OpenCL runtime that works in the memory of NumPy's arrays.

Launches are finished when they return, since NumPy reads and writes the same memory at once.
Ctrl-C during a kernel's first launch, or after one that was long, takes effect when it returns, or
two seconds later (`gate`): OpenCL ends no kernel that runs, and the memory must not go away
beneath it. During other launches it takes effect when they return.
"""

from __future__ import annotations

from typing import Any

from portable_backends.common.devices import RuntimeDevice
from portable_backends.cpu.numpy_device import NumPyDevice


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
        import dataclasses

        from portable_backends.common.host_memory import memory_of
        from portable_backends.opencl.capabilities import capabilities_of, words_of
        from portable_backends.opencl.runtime import Runtime

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

    def synchronize(self) -> None:
        """Wait for other threads' launches; this thread's own are finished already."""
        self._runtime.synchronize()


def _fine_grain_system() -> int:
    import pyopencl as cl

    return int(cl.device_svm_capabilities.FINE_GRAIN_SYSTEM)
