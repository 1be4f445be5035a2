"""Intel's devices through SYCL: dpnp arrays, and kernels in OpenCL C through dpctl."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from portable import errors
from portable.backend import (
    Argument,
    ArrayView,
    Backend,
    Capabilities,
    Device,
    Executable,
    MemoryUse,
    Program,
    Refused,
    Unavailable,
    ViewCode,
    bytes_of,
)
from portable.backend.queues import Mark, Queue
from portable.dtypes import NARROW, DType
from portable.dtypes import dtype as kind_of
from portable.profiling import timeline
from portable.system.console import warn_once
from portable_backends.common.drivers import announce, remedy, was_used_before
from portable_backends.common.gate import Gate
from portable_backends.sycl.streams import InFlight, SYCLStream, Timekeeper, follow, orders_of

_PROBE = "__kernel void probe(__global int *x) { x[get_global_id(0)] = 1; }"
_DLPACK_SYCL = 14
_SCALARS: dict[str, Any] = {
    "bool": ctypes.c_uint8,
    "int8": ctypes.c_int8,
    "int16": ctypes.c_int16,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8,
    "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}

_devices: list[SYCLDevice] = []
_GATE = Gate("sycl", lambda: list(map(_waited, _devices)), opened=False)
"""dpctl's record of a queue's events is not safe under threads: two that use it at once crash."""


def _waited(device: SYCLDevice) -> SYCLDevice:
    """The device, after what was enqueued and what gives up the arguments of it."""
    from dpctl.utils import SequentialOrderManager

    SequentialOrderManager[device.sycl_queue].wait()
    device.sycl_queue.wait()
    device.in_flight.release()
    return device


@cache
def _check_known(kind: DType) -> None:
    """Refuses what dpnp has no arrays of."""
    if kind in NARROW:
        raise errors.DTypeError(
            f"dpnp has no arrays of {kind.name}; take an OpenCL device of the same hardware"
        )


def _use_first(queue: Any) -> None:
    """Call what members of a group call first, in one thread.

    Modules of dpctl and dpnp prepare themselves at their first call. A thread that does so lets go
    of Python's lock meanwhile; one that then waits for it, holding that lock, waits for ever.
    """
    import dpnp

    array = dpnp.array(np.zeros(1, np.float32), sycl_queue=queue)
    array[...] = array + array
    dpnp.asnumpy(array)


def _half(value: float) -> ctypes.c_uint16:
    return ctypes.c_uint16(int(np.float16(value).view(np.uint16)))


def _converter(argument: Argument) -> Callable[[Any], Any]:
    """What turns a Python value into the object that dpctl takes for this argument."""
    if argument.kind == "pointer":
        return lambda handle: handle
    convert: Callable[[Any], Any] = _SCALARS.get(argument.type.name, _half)
    return convert


def _create(queue: Any, source: str, options: str) -> Any:
    """Compile OpenCL C; newer versions of dpctl call it otherwise.

    dpctl 0.22 gives no memory back for programs that are dropped (1.9 MB each with Intel's runtime
    for processors), so that there is no use in dropping them.
    """
    from dpctl import program

    names = ("create_program_from_source", "create_kernel_bundle_from_source")
    create = next(getattr(program, name) for name in names if hasattr(program, name))
    return create(queue, source, options)


class SYCLExecutable(Executable):
    """A kernel on the queue that dpnp uses, ordered with dpnp's own work by its events."""

    def __init__(self, device: SYCLDevice, kernel: Any, program: Program) -> None:
        from dpctl.utils import SequentialOrderManager

        self._device = device
        self._queue = device.sycl_queue
        self._kernel = kernel
        self._entry = program.entry
        self._name = program.name
        self._workgroup = program.workgroup
        self._local = list(program.workgroup[::-1])
        self._converters = [_converter(a) for a in program.arguments]
        self._orders = SequentialOrderManager

    def _sizes(self, groups: tuple[int, int, int]) -> list[int]:
        """The ndrange with dimensions reversed, as SYCL numbers them."""
        z, y, x = self._local
        return [groups[2] * z, groups[1] * y, groups[0] * x]

    def launch(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> None:
        """Enqueue after everything that dpnp or an earlier launch enqueued."""
        bound = [c(a) for c, a in zip(self._converters, arguments, strict=True)]
        self._submit(groups, self._sizes(groups), bound)

    def prepare(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> Callable[[], None]:
        """A launch whose arguments are converted once."""
        bound = [c(a) for c, a in zip(self._converters, arguments, strict=True)]
        return _Prepared(self, groups, bound)

    def _submit(
        self, groups: tuple[int, int, int], sizes: list[int], bound: list[Any], *, keep: bool = True
    ) -> Any:
        """Enqueue, note it if that is wanted, and return the event.

        The caller keeps the arguments alive unless `keep`.
        """
        recording = timeline.recording
        if recording is None:
            return self._enqueued(sizes, bound, keep)
        entry = timeline.Entry(self._name, "launch", groups, self._workgroup)
        with recording.between(self._device, entry, self._device.current_queue()):
            return self._enqueued(sizes, bound, keep)

    def _enqueued(self, sizes: list[int], bound: list[Any], keep: bool) -> Any:
        """The event of a launch.

        Where Ctrl-C comes between, nothing may keep them alive, so that it waits for the kernel.
        """
        queue = self._queue
        with _GATE.lock:
            try:
                order = self._orders[queue]
                event = queue.submit_async(
                    self._kernel, bound, sizes, self._local, order.submitted_events
                )
                if keep:
                    self._device.in_flight.add(event, bound)
                follow(order, event)
            except Exception as error:
                raise errors.LaunchError(f"launching {self._entry}: {error}") from error
            except KeyboardInterrupt:
                _waited(self._device)
                raise
        return event


class _Prepared:
    """A launch with its arguments, which it keeps alive until the last one it enqueued is done."""

    def __init__(
        self, executable: SYCLExecutable, groups: tuple[int, int, int], bound: list[Any]
    ) -> None:
        self._executable = executable
        self._groups = groups
        self._sizes = executable._sizes(groups)
        self._bound = bound
        self._event: Any = None

    def __call__(self) -> None:
        executable = self._executable
        try:
            self._event = executable._submit(self._groups, self._sizes, self._bound, keep=False)
        except KeyboardInterrupt:  # it may have been enqueued without being noted
            executable._device.synchronize()
            raise

    def __del__(self) -> None:
        if self._event is not None:
            self._event.wait()


class SYCLDevice(Device):
    """One device through dpctl's OpenCL backend.

    Parameters
    ----------
    queue : dpctl.SyclQueue
        The queue that dpnp uses for arrays of this device.
    twin : pyopencl.Device
        The same device as PyOpenCL sees it, which says what it can do and explains compile errors.
    name : str
        The full name, such as ``"sycl:gpu"``.
    """

    backend = "sycl"

    def __init__(self, queue: Any, twin: Any, name: str) -> None:
        from portable_backends.opencl.capabilities import capabilities_of, words_of

        self.name = name
        self.words = words_of(twin)
        plain = capabilities_of(twin)
        self.capabilities: Capabilities = dataclasses.replace(
            plain,
            pointer_offsets=True,
            streams=orders_of() is not None,
            compressed_bytes=lambda: plain.compressed_bytes,
        )
        self.sycl_queue = queue
        self.in_flight = InFlight()
        self.gate = _GATE
        self.stream: ContextVar[SYCLStream | None] = ContextVar(f"stream of {name}", default=None)
        self._idle: list[SYCLStream] = []  # of threads that have ended, for the next ones
        self._timekeeper = Timekeeper(self)
        self._twin = twin
        _devices.append(self)
        _GATE.open()

    def compile(self, program: Program) -> Executable:
        """Compile by SYCL, in each process anew; an error carries the OpenCL driver's log."""
        from portable_backends.common.devices import check
        from portable_backends.common.isolated_compiler import IsolatedCompiler
        from portable_backends.opencl.runtime import options_for

        _GATE.pass_through()
        _GATE.open()  # by now all of dpnp that registers something is imported
        check(program, self.capabilities)
        options = options_for(self._twin, self.capabilities, program.flags)
        if program.hazards:
            options = IsolatedCompiler(self._twin).options(program, options)
        try:
            built = _create(self.sycl_queue, program.source, " ".join(options))
        except Exception as error:  # noqa: BLE001  (its name differs among versions)
            self._explain(program)
            raise errors.CompileError(
                f"SYCL refused kernel {program.entry}", program.source, str(error)
            ) from None
        return SYCLExecutable(self, built.get_sycl_kernel(program.entry), program)

    keeps_programs = False
    """dpctl compiles source alone; drivers for GPUs keep what they made themselves."""

    def _explain(self, program: Program) -> None:
        """Compile the same source with PyOpenCL, whose error tells what is wrong."""
        from portable_backends.opencl.runtime import Runtime

        Runtime(self._twin, self.capabilities, self.name, blocking=False).compile(program)

    def owns(self, array: object) -> bool:
        """Whether this is a dpnp array on this device's queue."""
        queue = getattr(array, "sycl_queue", None)
        return queue is not None and hasattr(array, "get_array") and queue == self.sycl_queue

    def view(self, array: Any) -> ArrayView:
        """Describe a dpnp array."""
        inner = array.get_array()
        kind = inner.dtype
        size = kind.itemsize
        offset = inner._element_offset * size
        memory = inner.usm_data
        return ArrayView(
            kind,
            inner.shape,
            tuple([s * size for s in inner.strides]),
            memory,
            memory._pointer + offset,
            offset,
            None,
            inner.flags.writable,
        )

    def view_code(self, array: Any) -> ViewCode | None:
        """How compiled code sees dpnp arrays like this one, if it is writable."""
        inner = array.get_array()
        if not inner.flags.writable:
            return None
        size = inner.itemsize
        offset = f"{{x}}_inner._element_offset * {size}"
        return ViewCode(
            type(array),
            same="({x}_inner := {x}.get_array()).dtype is {x}_dtype"
            " and {x}_inner.shape == {x}_shape"
            f" and tuple([s * {size} for s in {{x}}_inner.strides]) == {{x}}_strides"
            " and {x}_inner.flags.writable and {x}_inner.sycl_queue == queue",
            handle="{x}_inner.usm_data",
            address="{x}_handle._pointer + " + offset,
            offset=offset,
            owner="None",
            names={"queue": self.sycl_queue},
        )

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """A new dpnp array in device memory."""
        import dpnp
        from dpctl.memory import USMAllocationError

        _check_known(dtype)
        bytes_of(shape, dtype.itemsize)
        with _GATE.lock:
            self.in_flight.release()
        try:
            return dpnp.empty(shape, dtype=dtype.numpy, sycl_queue=self.sycl_queue)
        except USMAllocationError as error:
            raise errors.OutOfMemoryError(
                f"{self.name} has no room for {shape} of {dtype}"
            ) from error

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        """Copy to the device."""
        import dpnp

        _check_known(kind_of(array.dtype))
        with _GATE.lock, timeline.copying(self, "to device", array.nbytes):
            return dpnp.array(np.asarray(array, order="C"), sycl_queue=self.sycl_queue)

    def to_numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """Copy from the device."""
        import dpnp

        with _GATE.lock, timeline.copying(self, "from device", array.nbytes):
            return np.array(dpnp.asnumpy(array), order="C")

    def synchronize(self) -> None:
        """Wait for dpnp's and our work."""
        with _GATE.lock:
            try:
                _waited(self)
            except Exception as error:
                raise errors.DeviceFaultError(
                    f"{self.name} failed while running earlier work: {error}"
                ) from error

    def namespace(self) -> Any:
        """The dpnp module, which follows the Array API."""
        import dpnp

        return dpnp

    def creation_arguments(self) -> dict[str, Any]:
        """New arrays go to this device's queue."""
        return {"sycl_queue": self.sycl_queue}

    def memory(self) -> MemoryUse:
        """Of the device; dpnp keeps no pool and no count."""
        from dpctl.utils import intel_device_info

        device = self.sycl_queue.sycl_device
        free = intel_device_info(device).get("free_memory")
        return MemoryUse(None, None, free, int(device.global_mem_size))

    def mark(self) -> Mark:
        """At the end of this thread's stream, or of what is in none."""
        from dpctl.utils import SequentialOrderManager

        stream = self.stream.get()
        if stream is not None:
            return stream.mark()
        return self._timekeeper.mark(SequentialOrderManager[self.sycl_queue])

    def thread_scope(self) -> AbstractContextManager[Any]:
        """A chain of events of its own, since threads cannot share dpctl's record of one."""
        return self._own_stream() if self.capabilities.streams else nullcontext()

    @contextmanager
    def _own_stream(self) -> Iterator[None]:
        with _GATE.lock:
            _use_first(self.sycl_queue)
            self.synchronize()
            stream = self._idle.pop() if self._idle else SYCLStream(self)
        try:
            with stream.scope():
                yield
        finally:
            stream.synchronize()
            self._idle.append(stream)

    def queue(self) -> Queue:
        """A chain of events of its own."""
        return SYCLStream(self) if self.capabilities.streams else super().queue()

    def current_queue(self) -> SYCLStream | None:
        """This thread's stream."""
        return self.stream.get()

    def adopt(self, array: Any) -> Any:
        """A dpnp array over another library's memory on this device."""
        import dpnp

        from portable_backends.common.devices import device_type

        if device_type(array) == _DLPACK_SYCL:
            shared = dpnp.from_dlpack(array)
            if self.owns(shared):
                return shared
        raise errors.DeviceMismatchError(
            f"{type(array).__module__}.{type(array).__name__} does not share memory with "
            f"{self.name}; copy it with portable.asarray(x, device={self.name!r})"
        )


class SYCLBackend(Backend):
    """The devices of SYCL's OpenCL backend on which allocation and a kernel were seen to work."""

    name = "sycl"

    def __init__(self) -> None:
        self._reason = ""
        self._refused: list[Refused] = []

    def devices(self) -> Sequence[Device]:
        """GPUs first."""
        self._reason = "no device of SYCL's OpenCL backend works here"
        missing = [m for m in ("dpctl", "dpnp", "pyopencl") if find_spec(m) is None]
        if missing:
            self._reason = f"{' and '.join(missing)} cannot be imported"
            return ()
        try:
            devices = _working(self._refused)
            if not devices and was_used_before("dpctl"):
                self._reason += (
                    f"; dpctl was imported before, and may not know them all: {remedy()}"
                )
                self._warn_of_hidden()
            return _offer(devices)
        except (ImportError, OSError, RuntimeError) as error:
            self._reason = f"dpctl cannot be used ({error})"
            return ()

    def _warn_of_hidden(self) -> None:
        """Say that SYCL lists no device at all where OpenCL has one, which users would miss."""
        from portable_backends.opencl.discovery import find

        if find() and not self._refused:
            warn_once(f"sycl has no devices: {self._reason}")

    def refused(self) -> Sequence[Refused]:
        """Those that SYCL lists in vain."""
        return self._refused

    def unavailable(self) -> Unavailable:
        """What to install."""
        return Unavailable("sycl", self._reason, "pip install 'portable-arrays[sycl]'")

    def array_types(self) -> tuple[str, ...]:
        """That of dpnp."""
        return ("dpnp",)


def _working(refused: list[Refused]) -> list[tuple[Any, Any]]:
    """Queues of the devices that pass the probe, each with its twin in PyOpenCL."""
    announce()
    import dpctl
    from dpctl._sycl_queue_manager import get_device_cached_queue

    working = []
    for device in sorted(dpctl.get_devices(backend="opencl"), key=lambda d: bool(d.is_cpu)):
        queue, twin = get_device_cached_queue(device), _twin(device)
        wrong = _unsuitable(device, twin) or _failure(queue)
        if wrong:
            refused.append(Refused(f"sycl:{device.device_type.name} ({device.name})", wrong))
        else:
            working.append((queue, twin))
    return working


def _unsuitable(device: Any, twin: Any) -> str:
    """Why a device is not even tried; empty where it is."""
    if device.device_type.name not in ("gpu", "cpu"):
        return "it is neither a GPU nor a processor"
    return "" if twin is not None else "PyOpenCL finds no device of this name and driver"


def _twin(device: Any) -> Any:
    from portable_backends.opencl.discovery import find

    return next((d for d in find() if _known_by(d) == _known_by(device)), None)


def _known_by(device: Any) -> tuple[str, str]:
    """What SYCL and OpenCL know the same device by."""
    return device.name.strip(), device.driver_version


def _failure(queue: Any) -> str:
    """What fails of allocating memory and running a kernel; some drivers list devices in vain."""
    from dpctl.memory import MemoryUSMDevice

    try:
        memory = MemoryUSMDevice(64, queue=queue)
        kernel = _create(queue, _PROBE, "").get_sycl_kernel("probe")
        queue.submit(kernel, [memory], [16], [16])
        right = bool((memory.copy_to_host().view(np.int32) == 1).all())
    except Exception as error:  # noqa: BLE001  (whatever fails, the device is of no use)
        return f"a first kernel fails on it: {error}"
    return "" if right else "a first kernel gives wrong results on it"


def _offer(working: Sequence[tuple[Any, Any]]) -> list[Device]:
    kinds = ["cpu" if queue.sycl_device.is_cpu else "gpu" for queue, _ in working]
    devices: list[Device] = []
    for i, (queue, twin) in enumerate(working):
        several = kinds.count(kinds[i]) > 1
        index = f":{kinds[:i].count(kinds[i])}" if several else ""
        devices.append(SYCLDevice(queue, twin, f"sycl:{kinds[i]}{index}"))
    return devices
