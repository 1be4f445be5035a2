"""The backend of the processor: which devices there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from portable.backend import Backend, Device, Unavailable

_PREFERENCE = ("intel", "pocl")


class CPUBackend(Backend):
    """NumPy arrays with kernels by LLVM, on Intel's runtime, PoCL or other OpenCL drivers."""

    name = "cpu"

    def __init__(self) -> None:
        self._reason = ""

    def devices(self) -> Sequence[Device]:
        """The one by LLVM, then one per OpenCL runtime, Intel's first."""
        return [*self._by_llvm(), *self._by_opencl()]

    def _by_llvm(self) -> Sequence[Device]:
        from portable_backends.cpu.native_device import NativeDevice, why_not

        self._reason = why_not()
        return () if self._reason else [NativeDevice()]

    def _by_opencl(self) -> Sequence[Device]:
        try:
            from pyopencl import Error

            from portable_backends.cpu.numpy_device import CPUDevice
            from portable_backends.opencl.capabilities import is_cpu, platform_word
            from portable_backends.opencl.discovery import find, why_none
        except ImportError as error:
            self._reason = f"{self._reason}; PyOpenCL cannot be imported ({error})"
            return ()
        devices = {platform_word(d): d for d in reversed(find()) if is_cpu(d)}
        devices.pop("oclgrind", None)
        order = sorted(devices, key=lambda w: (*_PREFERENCE, w).index(w))
        self._reason = f"{self._reason}; {why_none('no OpenCL runtime for it was found')}"
        made = []
        for word in order:
            try:
                made.append(CPUDevice(devices[word], f"cpu:{word}"))
            except Error as error:  # of one that is broken, which leaves the others be
                self._reason = f"{self._reason}; {word}'s fails ({error})"
        return made

    def further(self) -> Mapping[str, Callable[[], Device]]:
        """The one by LLVM for arrays of `portable.array`."""
        from portable_backends.cpu.native_device import why_not

        return {} if why_not() else {"native-arrays": _for_arrays}

    def unavailable(self) -> Unavailable:
        """What to install."""
        return Unavailable("cpu", self._reason, "pip install llvmlite, or 'portable-arrays[cpu]'")

    def array_types(self) -> tuple[str, ...]:
        """NumPy's, and those of `portable.array`."""
        return ("numpy", "portable")


def _for_arrays() -> Device:
    from portable_backends.cpu.native_arrays import ArrayNativeDevice

    return ArrayNativeDevice()
