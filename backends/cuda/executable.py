"""Functions of programs that were loaded on a GPU, and what the driver's errors mean.

Launches pack their arguments into a block of memory of their own and call the driver through
CuPy's binding, which costs less than CuPy's own way of boxing each argument.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from portable.backend import Argument, Executable, Program
from portable.errors import DeviceFaultError, LaunchError, OutOfMemoryError, PortableError
from portable.profiling import timeline
from portable_backends.common.tensor_maps import describing
from portable_backends.cuda.parameter_blocks import ParameterBlock

if TYPE_CHECKING:
    from portable_backends.cuda.backend import CuPyDevice

_FAULTS = (
    "ILLEGAL",
    "LAUNCH_FAILED",
    "MISALIGNED",
    "ASSERT",
    "HARDWARE",
    "Illegal",
    "LaunchFailure",
)


class CuPyExecutable(Executable):
    """A function of a loaded module, launched on the current stream."""

    def __init__(self, device: CuPyDevice, program: Program, module: Any, function: Any) -> None:
        from cupy.cuda import stream
        from cupy_backends.cuda.api import driver, runtime

        self._device = device
        self._program = program
        self._module = module
        self._function = function.ptr
        self._workgroup = program.workgroup
        self._shared = program.local_bytes if program.dynamic_local else 0
        self._block = ParameterBlock(program.arguments)
        self._lock = threading.Lock()
        self._threads = threading.local()
        self._driver_launch = driver.launchKernel
        self._current_stream = stream.get_current_stream
        self._current_device = runtime.getDevice

    def launch(
        self, groups: tuple[int, int, int], arguments: Sequence[Any], stream: int | None = None
    ) -> None:
        """Enqueue on a stream, or CuPy's current one; the driver copies the arguments at once."""
        if stream is not None and timeline.recording is not None:
            with self._device.on_stream(stream):
                self.launch(groups, arguments)
            return
        with self._lock:
            self._fill(self._block, arguments)
            self._enqueue(groups, self._block.pointers, stream)

    def prepare(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> Callable[[], None]:
        """A launch whose arguments are packed once, in the fewest steps of Python."""
        block = ParameterBlock(self._program.arguments)
        self._fill(block, arguments)
        sizes = *groups, *self._workgroup, self._shared
        threads, index = self._threads, self._device.index
        launch, function = self._driver_launch, self._function
        current_stream, current_device = self._current_stream, self._current_device

        def run() -> None:
            pointers, ready = block.pointers, getattr(threads, "ready", False)
            if not ready or current_device() != index or timeline.recording is not None:
                self._enqueue(groups, pointers)
                return
            try:
                launch(function, *sizes, current_stream().ptr, pointers, 0)
            except RuntimeError as error:
                raise translated(error, f"launching {self._program.name}") from error

        return run

    def boxes(
        self, argument: Argument, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Callable[[Any, int], Any]:
        """From an array's address to NVIDIA's description of it."""
        return describing(argument, shape, strides)

    def _fill(self, block: ParameterBlock, arguments: Sequence[Any]) -> None:
        try:
            block.fill(arguments)
        except struct.error as error:
            raise LaunchError(f"launching {self._program.name}: {error}") from error

    def _enqueue(
        self, groups: tuple[int, int, int], pointers: int, stream: int | None = None
    ) -> None:
        ready = getattr(self._threads, "ready", False)
        if not ready or self._current_device() != self._device.index:
            self._enqueue_elsewhere(groups, pointers, stream)
            return
        noting = None if timeline.recording is None else self._noting(groups)
        stream = self._current_stream().ptr if stream is None else stream
        try:
            self._driver_launch(
                self._function, *groups, *self._workgroup, self._shared, stream, pointers, 0
            )
        except RuntimeError as error:
            raise translated(error, f"launching {self._program.name}") from error
        if noting is not None:
            noting()

    def _noting(self, groups: tuple[int, int, int]) -> Callable[[], None] | None:
        """What is to be called behind a launch that is recorded, if a recording is on."""
        recording = timeline.recording
        if recording is None:
            return None
        entry = timeline.Entry(self._program.name, "launch", groups, self._workgroup)
        return self._device.noting(recording, entry)

    def _enqueue_elsewhere(
        self, groups: tuple[int, int, int], pointers: int, stream: int | None
    ) -> None:
        """A thread's first launch, which makes the context current, or one to another device."""
        from cupy_backends.cuda.api import runtime

        with self._device.stream_scope():
            runtime.setDevice(self._device.index)
            self._threads.ready = True
            self._enqueue(groups, pointers, stream)


def translated(error: Exception, what: str) -> PortableError:
    """The exception of ours that an error of the driver means, `what` being what was tried."""
    text = f"{what}: {error}"
    if any(word in str(error) for word in _FAULTS):
        return DeviceFaultError(f"{text}; an earlier kernel failed on the device")
    if "MEMORY" in str(error).upper():
        return OutOfMemoryError(text)
    if "RESOURCES" in str(error).upper():
        return LaunchError(f"{text}; use a smaller workgroup or less local memory")
    return LaunchError(text)
