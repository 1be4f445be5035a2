"""Programs that PyOpenCL built as kernels of SYCL, so that they come from disk.

dpctl compiles source alone, in every process anew. But beneath a queue of SYCL's OpenCL backend is
an OpenCL context, in which PyOpenCL loads what was compiled before. SYCL's library takes programs
from there (`sycl::make_kernel_bundle`, of which a header is all that users see: the function behind
it is called by the name that C++ gives it), and dpctl makes Python objects of what it gives. That
all are there is looked up; that they do what they should a small kernel shows, once for each
version of them and of the driver, in a process of its own, which they may end.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache as kept_in_process
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portable.backend import Capabilities
from portable_backends.opencl_capabilities import capabilities_of
from portable_backends.opencl_probes import answer, asked_apart, remembered
from portable_backends.opencl_remarks import quiet
from portable_backends.opencl_runtime import Runtime

__all__ = ["Bundles", "bundles_of", "known_by", "works"]

_CONTEXT: Final = "_ZNK4sycl3_V17context9getNativeEv"
"""``sycl::context::getNative() const``"""

_BUNDLE: Final = (
    "_ZN4sycl3_V16detail18make_kernel_bundleEmRKNS0_7contextEbNS0_12bundle_stateENS0_7backendE"
)
"""``sycl::detail::make_kernel_bundle(unsigned long, const context &, bool, bundle_state, backend)``

It returns a ``std::shared_ptr``, all that a kernel bundle consists of.
"""

_SHARED_POINTER: Final = ctypes.c_uint64 * 2
_OPENCL, _EXECUTABLE = 1, 2
"""Of ``sycl::backend`` and ``sycl::bundle_state``."""

_SOURCE: Final = "__kernel void probe(__global int *x, int by) { x[get_global_id(0)] += by; }"


class Bundles:
    """Makes kernels of SYCL of programs that were built in the context beneath a queue.

    Parameters
    ----------
    queue : dpctl.SyclQueue
        Of SYCL's OpenCL backend.
    capabilities : Capabilities
        Of its device.
    name : str
        Portable's name of that.

    Attributes
    ----------
    runtime : Runtime
        What builds programs in that context, and loads them.

    Raises
    ------
    OSError, AttributeError, LookupError
        Where a library or a function is missing.
    """

    def __init__(self, queue: Any, capabilities: Capabilities, name: str) -> None:
        from dpctl.program import _program

        path = _library()
        if path is None:
            raise FileNotFoundError("dpctl came without its library of C functions")
        library = ctypes.CDLL(str(path))
        own = queue.sycl_context
        context = library[_CONTEXT]
        context.restype, context.argtypes = ctypes.c_uint64, [ctypes.c_void_p]
        self._bundle = library[_BUNDLE]
        self._bundle.restype = None
        self._bundle.argtypes = [
            *(ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p),
            *(ctypes.c_bool, ctypes.c_int, ctypes.c_int),
        ]
        self._copy = library["DPCTLKernelBundle_Copy"]
        self._copy.restype, self._copy.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        exported = _address(_program.__pyx_capi__["SyclProgram_Make"])
        self._program = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(exported)
        self._queue, self._own = queue, own.addressof_ref()
        beneath = cl.Context.from_int_ptr(context(self._own), retain=True)
        (device,) = beneath.devices
        self.runtime = Runtime(device, capabilities, name, blocking=False, context=beneath)

    def kernel(self, built: cl.Program, entry: str) -> Any:
        """A kernel of a program, which is not to be given up before it.

        Parameters
        ----------
        built : pyopencl.Program
            Of the `runtime`.
        entry : str
            The kernel's name.
        """
        made = _SHARED_POINTER()
        native: Any = built.int_ptr
        self._bundle(ctypes.addressof(made), native, self._own, True, _EXECUTABLE, _OPENCL)
        # What dpctl gives up in the end it must have made itself. This pointer is never given up.
        copied = self._copy(ctypes.addressof(made))
        return self._program(copied).get_sycl_kernel(entry)


def bundles_of(
    queue: Any, twin: cl.Device, capabilities: Capabilities, name: str
) -> Bundles | None:
    """What makes kernels for a queue of programs that PyOpenCL built; None where nothing does.

    Parameters
    ----------
    queue, capabilities, name
        As for `Bundles`.
    twin : pyopencl.Device
        The device as PyOpenCL sees it.
    """
    if not sys.platform.startswith("linux") or not _found_out(twin):
        return None
    return _made(queue, capabilities, name)


def _made(queue: Any, capabilities: Capabilities, name: str) -> Bundles | None:
    """They, unless something is missing."""
    try:
        return Bundles(queue, capabilities, name)
    except (OSError, AttributeError, LookupError):
        return None


@kept_in_process
def _found_out(twin: cl.Device) -> bool:
    """Whether it works, as was found out once."""
    import dpctl

    library = _library()
    question = f"bundles of {dpctl.__version__} {library.stat().st_size if library else 0}"
    return bool(remembered(twin, question, lambda: asked_apart(__name__, twin), 0))


def works(twin: cl.Device) -> bool:
    """The same, found out now and in this process.

    Parameters
    ----------
    twin : pyopencl.Device
        The device that the queue is to be of.
    """
    import dpctl

    for device in dpctl.get_devices(backend="opencl"):
        if known_by(device) == known_by(twin):
            queue = dpctl.SyclQueue(device)
            bundles = _made(queue, capabilities_of(twin), "sycl")
            return bundles is not None and _computes(bundles, queue)
    return False


def _computes(bundles: Bundles, queue: Any) -> bool:
    """Whether a small kernel does what it should."""
    from dpctl.memory import MemoryUSMDevice

    memory = MemoryUSMDevice(64, queue=queue)
    memory.copy_from_host(np.arange(16, dtype=np.int32).view(np.uint8))
    kernel = bundles.kernel(_loaded(bundles.runtime.context), "probe")
    queue.submit(kernel, [memory, ctypes.c_int(3)], [16], [16]).wait()
    found = memory.copy_to_host().view(np.int32)
    return bool((found == np.arange(16) + 3).all())


def _loaded(context: cl.Context) -> cl.Program:
    """The small kernel from its binary."""
    with quiet:
        built = cl.Program(context, _SOURCE).build(cache_dir=False)  # type: ignore[arg-type]
        binaries: Any = built.get_info(cl.program_info.BINARIES)
        again: cl.Program = cl.Program(context, context.devices, [bytes(binaries[0])]).build()
    return again


def known_by(device: Any) -> tuple[str, str]:
    """What SYCL and OpenCL know the same device by.

    Parameters
    ----------
    device : dpctl.SyclDevice or pyopencl.Device
    """
    return device.name.strip(), device.driver_version


def _library() -> Path | None:
    """That of dpctl, with which SYCL's is loaded."""
    import dpctl

    found = sorted(Path(dpctl.__file__).parent.glob("libDPCTLSyclInterface.so*"))
    return found[0] if found else None


def _address(capsule: Any) -> int:
    """Where a function lies that a module exports."""
    api = ctypes.pythonapi
    name, pointer = api.PyCapsule_GetName, api.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found: int = pointer(capsule, name(capsule))
    return found


if __name__ == "__main__":
    answer(works)
