"""Any OpenCL device: arrays in device buffers from a memory pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from portable.backend import (
    ArrayView,
    Backend,
    Device,
    Executable,
    MemoryUse,
    Program,
    Refused,
    Unavailable,
    bytes_of,
)
from portable.backend.queues import Mark, Queue
from portable.dtypes import DType
from portable_backends.common.devices import ArrayDevice

if TYPE_CHECKING:
    from portable.array.array import Array
    from portable_backends.opencl.replay import Replay
    from portable_backends.opencl.runtime import Runtime


class RuntimeDevice(Device):
    """A device whose kernels an OpenCL driver compiles and runs, which its constructor makes."""

    _runtime: Runtime

    def compile(self, program: Program) -> Executable:
        """Compile with the device's driver."""
        return self._runtime.compile(program)

    def program_facts(self) -> dict[str, str]:
        """Drivers take their own binaries alone."""
        return self._runtime.facts()

    def export(self, program: Program) -> bytes:
        """The driver's binary."""
        return self._runtime.export(program)

    def load(self, program: Program, code: bytes) -> Executable:
        """Load the driver's binary."""
        return self._runtime.load(program, code)

    def synchronize(self) -> None:
        """Wait for all that was enqueued."""
        self._runtime.synchronize()


class OpenCLDevice(ArrayDevice, RuntimeDevice):
    """One OpenCL device through PyOpenCL.

    Parameters
    ----------
    device : pyopencl.Device
        The device.
    name : str
        The full name, such as ``"opencl:nvidia"``.
    """

    backend = "opencl"

    def __init__(self, device: Any, name: str) -> None:
        import pyopencl as cl

        from portable.array.array import Array
        from portable_backends.opencl.capabilities import capabilities_of, words_of
        from portable_backends.opencl.runtime import Runtime

        self.name = name
        self.words = words_of(device)
        self.capabilities = capabilities_of(device)
        self._runtime = Runtime(device, self.capabilities, name, blocking=False)
        self._pool = self._new_pool(self._runtime.queue)
        self._array = Array
        self._cl = cl

    def _new_pool(self, queue: Any) -> Any:
        from pyopencl.tools import ImmediateAllocator, MemoryPool

        return MemoryPool(ImmediateAllocator(queue))

    def _memory(self) -> Any:
        """The pool of the current queue."""
        chosen = self._runtime.choice
        if chosen is None:
            return self._pool
        if chosen.pool is None:
            chosen.pool = self._new_pool(chosen.handle)
        return chosen.pool

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """A new array in memory from the pool."""
        made: Array = self.maker(shape, dtype)()
        return made

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any]:
        """What makes arrays of a shape, whose bytes and strides are worked out once."""
        from portable.primitives.base.storage import contiguous_strides

        size = max(bytes_of(shape, dtype.itemsize), dtype.itemsize)
        strides = contiguous_strides(shape, dtype.itemsize)

        def made() -> Array:
            return self._array.new(self, self._allocated(size), dtype, shape, strides)

        return made

    def _allocated(self, size: int) -> Any:
        """A buffer of so many bytes."""
        self._runtime.gate.pass_through()
        try:
            return self._memory().allocate(size)
        except self._cl.Error:
            self._runtime.addresses.let_go()
        try:
            return self._memory().allocate(size)
        except self._cl.Error as error:
            from portable_backends.opencl.executable import launch_error

            raise launch_error(error, f"allocating {size} bytes on {self.name}") from error

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Array:
        """Copy to the device."""
        from portable.dtypes import dtype

        made = self.empty(array.shape, dtype(array.dtype))
        if array.size:
            self._runtime.copy(made.buffer, np.ascontiguousarray(array))
        return made

    def to_numpy(self, array: Array) -> np.ndarray[Any, Any]:
        """Copy from the device: the bytes that a view spans, of which NumPy then picks its own."""
        if array.is_contiguous:
            out = np.empty(array.shape, array.dtype.numpy)
            if out.size:
                self._runtime.copy(out, array.buffer, src_offset=array.offset)
            return out
        low, high = array.extent_in_bytes()
        raw = np.empty(high - low, np.uint8)
        if raw.size:
            self._runtime.copy(raw, array.buffer, src_offset=low)
        view = np.ndarray(array.shape, array.dtype.numpy, raw, array.offset - low, array.strides)
        return np.array(view, order="C")

    def in_place(self, array: np.ndarray[Any, Any]) -> ArrayView | None:
        """On processors, as NumPy's arrays lie, where their memory is aligned to their elements."""
        if self.capabilities.kind != "cpu" or not (array.size and array.flags.aligned):
            return None
        view: ArrayView = self._host_memory.view(array)
        return view

    @cached_property
    def _host_memory(self) -> Any:
        from portable_backends.common.host_memory import memory_of

        runtime, largest = self._runtime, self.capabilities.max_allocation
        return memory_of(runtime.device, runtime.context, largest)

    def shared(self, array: Array) -> np.ndarray[Any, Any] | None:
        """The elements in place, which they are on processors."""
        if self.capabilities.kind != "cpu":
            return None

        from portable_backends.opencl.runtime import in_place

        return in_place(self._runtime, array)

    def mark(self) -> Mark:
        """A marker in the current queue."""
        return self._runtime.mark()

    def current_queue(self) -> int | None:
        """Its number; None for the first queue."""
        chosen = self._runtime.choice if self._runtime.has_chosen else None
        return None if chosen is None else chosen.number

    def memory(self) -> MemoryUse:
        """Of the pools of all queues; OpenCL does not say what is free."""
        further = [queue.pool for queue in list(self._runtime.further)]
        further += [queue.pool for queue in list(self._runtime.captures)]
        pools = [self._pool, *(pool for pool in further if pool is not None)]
        return MemoryUse(
            sum(pool.active_bytes for pool in pools),
            sum(pool.managed_bytes for pool in pools),
            None,
            self.capabilities.global_memory,
        )

    def at_once(self, first: Callable[[], object], second: Callable[[], object]) -> None:
        """By a further queue, on devices whose host is another."""
        if self.capabilities.kind == "cpu":
            super().at_once(first, second)
        else:
            self._runtime.at_once(first, second)

    def replay(self, work: Callable[[], object]) -> Replay:
        """By launches that are captured at the second call."""
        from portable_backends.opencl.replay import Replay

        return Replay(self._runtime, work, lambda: self._new_pool(self._runtime.queue))

    def joined(self, launches: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """By one job of them all, which `replay` captures."""
        return self.replay(super().joined(launches))

    def queue(self) -> Queue:
        """A command queue beside the others."""
        return self._runtime.further_queue()


class OpenCLBackend(Backend):
    """Every device that PyOpenCL finds, GPUs first."""

    name = "opencl"

    def __init__(self) -> None:
        self._reason = ""

    def devices(self) -> Sequence[Device]:
        """One device each, named after its driver, numbered where a driver has several."""
        try:
            from portable_backends.opencl.capabilities import is_cpu
            from portable_backends.opencl.discovery import find, why_none
        except ImportError as error:
            self._reason = f"PyOpenCL cannot be imported ({error})"
            return ()
        self._reason = why_none("no OpenCL driver was found")
        devices = sorted(find(), key=is_cpu)
        return [OpenCLDevice(d, n) for d, n in zip(devices, _named(devices), strict=True)]

    def further(self) -> Mapping[str, Callable[[], Device]]:
        """Those without a compiler, by their drivers' names."""
        try:
            from portable_backends.opencl.discovery import without_compiler
        except ImportError:
            return {}
        result = without_compiler()
        return {
            name.removeprefix("opencl:"): partial(OpenCLDevice, d, name)
            for d, name in zip(result, _named(result), strict=True)
        }

    def refused(self) -> Sequence[Refused]:
        """Those that kernels cannot be built for."""
        try:
            from portable_backends.opencl.capabilities import platform_word
            from portable_backends.opencl.discovery import passed_over
        except ImportError:
            return ()
        return [Refused(f"opencl:{platform_word(d)}", reason) for d, reason in passed_over()]

    def unavailable(self) -> Unavailable:
        """What to install."""
        return Unavailable(
            "opencl",
            self._reason,
            "pip install 'portable-arrays[cpu]' for the processor, or the GPU vendor's driver",
        )

    def array_types(self) -> tuple[str, ...]:
        """The module of `portable.array`."""
        return ("portable",)


def _named(devices: Sequence[Any]) -> list[str]:
    """Their names, by their drivers."""
    from portable_backends.opencl.capabilities import platform_word

    words = [platform_word(device) for device in devices]
    total, seen = Counter(words), Counter[str]()
    names = []
    for word in words:
        names.append(f"opencl:{word}" + (f":{seen[word]}" if total[word] > 1 else ""))
        seen[word] += 1
    return names
