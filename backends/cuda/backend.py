"""NVIDIA and AMD GPUs: CuPy arrays, on CuPy's current device and stream."""

from __future__ import annotations

import ctypes
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from portable.backend import (
    ArrayView,
    Backend,
    Capabilities,
    Collectives,
    Device,
    Executable,
    MemoryUse,
    Program,
    Unavailable,
    ViewCode,
    bytes_of,
)
from portable.backend.queues import Mark, Queue
from portable.dtypes import DType
from portable.errors import (
    DeviceError,
    DeviceFaultError,
    DeviceMismatchError,
    LaunchError,
    OutOfMemoryError,
)
from portable.interchange.tensors import is_tensor, place_of
from portable.profiling import timeline
from portable_backends.common.devices import check
from portable_backends.common.loans import Loan, Loans
from portable_backends.cuda import jax_arrays
from portable_backends.cuda.executable import CuPyExecutable, translated
from portable_backends.cuda.streams import CuPyMark, StreamAt, before_waits, get_ready
from portable_backends.cuda.torch_tensors import BYTES, array_over, view_code

_DLPACK_KINDS = {"cuda": (2, 13), "rocm": (10,)}
_MAX_DYNAMIC_SHARED = 8
_MAX_THREADS = 0
_new_view: Callable[..., ArrayView] = tuple.__new__


class CuPyDevice(Device):
    """One GPU through CuPy.

    Parameters
    ----------
    backend : {"cuda", "rocm"}
        What CuPy was built for.
    index : int
        CuPy's number of the device.
    capabilities : Capabilities
        What it can do.
    """

    def __init__(self, backend: str, index: int, capabilities: Capabilities) -> None:
        import cupy

        self.name = f"{backend}:{index}"
        self.backend = backend
        self.index = index
        self.words = frozenset({capabilities.vendor, capabilities.architecture, "gpu"})
        self.capabilities = capabilities
        self._cupy = cupy
        self._array = cupy.ndarray
        self._loans = Loans(self._mark_of_loans)

    def compile(self, program: Program) -> Executable:
        """Compile with NVRTC or hiprtc and load the result on this device."""
        return self._loaded(program, self.export(program))

    def export(self, program: Program) -> bytes:
        """A cubin or code object for this architecture."""
        from portable_backends.cuda import rtc

        check(program, self.capabilities)
        if self.backend == "cuda":
            return rtc.compile_cuda(program, self._target(), self.capabilities.driver)
        return rtc.compile_hip(program, self._target(), self.capabilities.driver)

    def program_facts(self) -> dict[str, str]:
        """Machine code is of one architecture, and newer drivers take that of older compilers."""
        return {"architecture": self._target()}

    def load(self, program: Program, code: bytes) -> Executable:
        """Load machine code."""
        check(program, self.capabilities)
        try:
            return self._loaded(program, code)
        except LaunchError as error:
            raise DeviceError(
                f"{error}; it was compiled for another device or for a newer driver than "
                f"{self.capabilities.driver}: compile it again"
            ) from error

    def _target(self) -> str:
        from portable_backends.cuda import rtc

        if self.backend == "cuda":
            return rtc.cuda_target(*_level(self.capabilities.architecture))
        return self.capabilities.architecture

    def _loaded(self, program: Program, code: bytes) -> Executable:
        from cupy.cuda.function import Module
        from cupy_backends.cuda.api import driver

        get_ready()
        with self.stream_scope():
            try:
                module = Module()
                module.load(code)
                function = module.get_function(program.entry)
                self._configure(program, function.ptr, driver)
            except driver.CUDADriverError as error:
                raise translated(error, f"loading {program.name} for {self._target()}") from error
        return CuPyExecutable(self, program, module, function)

    def _configure(self, program: Program, function: int, driver: Any) -> None:
        most = driver.funcGetAttribute(_MAX_THREADS, function)
        width, height, depth = program.workgroup
        if width * height * depth > most:
            raise LaunchError(
                f"{program.name} can run with at most {most} work-items in a workgroup on "
                f"{self.name}; it was given {program.workgroup}"
            )
        if program.dynamic_local and program.local_bytes > self.capabilities.local_memory:
            driver.funcSetAttribute(function, _MAX_DYNAMIC_SHARED, program.local_bytes)

    def owns(self, array: object) -> bool:
        """Whether this is a CuPy array on this device."""
        return isinstance(array, self._array) and array.data.device_id == self.index

    def view(self, array: Any) -> ArrayView:
        """Describe a CuPy array; the handle is the address of its first element."""
        address = array.data.ptr
        # Past the constructor, which would be half of the time that this takes.
        return _new_view(
            ArrayView,
            (array.dtype, array.shape, array.strides, address, address, 0, None, True, None),
        )

    def view_code(self, array: Any) -> ViewCode | None:
        """How compiled code sees a CuPy array, one of PyTorch's tensors, or of JAX's arrays."""
        if is_tensor(array):
            return view_code(array, self.index)
        if type(array) is not self._array:
            return jax_arrays.view_code(array, self.index, self._loans, self._dlpack_stream)
        return ViewCode(
            self._array,
            same="{x}.dtype is {x}_dtype and {x}.shape == {x}_shape and {x}.strides == {x}_strides"
            " and ({x}_data := {x}.data).device_id == index",
            handle="{x}_data.ptr",
            address="{x}_handle",
            offset="0",
            owner="None",
            names={"index": self.index},
        )

    def _dlpack_stream(self) -> int:
        stream = int(self._cupy.cuda.get_current_stream().ptr)
        return stream or int(self.backend == "cuda")  # 1 is CUDA's default stream, 0 ROCm's

    def behind(self, handle: int, by: int) -> int:
        """A later address."""
        return handle + by

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """A new CuPy array."""
        bytes_of(shape, dtype.itemsize)
        try:
            with self.stream_scope():
                if dtype.numpy in BYTES:
                    return self._cupy.empty(shape, np.uint8).view(dtype.numpy)
                return self._cupy.empty(shape, dtype.numpy)
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise OutOfMemoryError(f"{self.name}: {error}") from error

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any]:
        """What makes CuPy arrays past `empty`, where this device is the current one."""
        from cupy_backends.cuda.api import runtime

        bytes_of(shape, dtype.itemsize)
        kind, current_device, array = dtype.numpy, runtime.getDevice, self._array
        out_of_memory = self._cupy.cuda.memory.OutOfMemoryError

        def made() -> Any:
            if current_device() != self.index:
                return self.empty(shape, dtype)
            try:
                return array(shape, kind)
            except out_of_memory as error:
                raise OutOfMemoryError(f"{self.name}: {error}") from error

        return made

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        """Copy to the device."""
        get_ready()
        try:
            with self.stream_scope(), timeline.copying(self, "to device", array.nbytes):
                words = array.view(np.uint8) if array.dtype in BYTES else array
                made = self._cupy.array(words, order="C")
                return made if words is array else made.view(array.dtype)
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise OutOfMemoryError(f"{self.name}: {error}") from error

    def to_numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """Copy from the device, after all work on the current stream."""
        get_ready()
        try:
            with self.stream_scope(), timeline.copying(self, "from device", array.nbytes):
                words = array.view(np.uint8) if array.dtype in BYTES else array
                held: np.ndarray[Any, Any] = np.array(self._cupy.asnumpy(words), order="C")
                self._loans.settle()
                return held.view(array.dtype)
        except RuntimeError as error:
            raise translated(error, f"copying from {self.name}") from error

    def synchronize(self) -> None:
        """Wait for every stream of this device."""
        get_ready()
        try:
            self._cupy.cuda.Device(self.index).synchronize()
        except RuntimeError as error:
            raise DeviceFaultError(
                f"{self.name} failed while running earlier work: {error}"
            ) from error
        self._loans.settle()

    def namespace(self) -> Any:
        """CuPy by the Array API's names."""
        import array_api_compat.cupy

        return array_api_compat.cupy

    def replay(self, work: Callable[[], object]) -> Callable[[], object]:
        """By CUDA graphs; CuPy has none for ROCm."""
        from portable_backends.cuda.streams import Replay

        return Replay(self, work) if self.capabilities.replays else work

    def at_once(self, first: Callable[[], object], second: Callable[[], object]) -> None:
        """By a branch of the graph that is captured, or by a stream."""
        from portable_backends.cuda.streams import branch

        with branch(second):
            first()

    def stream_scope(self) -> AbstractContextManager[Any]:
        """A context in which this device is CuPy's current one."""
        scope: AbstractContextManager[Any] = self._cupy.cuda.Device(self.index)
        return scope

    def on_stream(self, address: int) -> AbstractContextManager[None]:
        """A context in which a stream of that address is CuPy's current one on this device."""
        cuda = self._cupy.cuda
        if cuda.runtime.getDevice() == self.index and cuda.get_current_stream().ptr == address:
            return nullcontext()
        return self._on_other_stream(address)

    @contextmanager
    def _on_other_stream(self, address: int) -> Iterator[None]:
        theirs = self._cupy.cuda.Stream.from_external(StreamAt(address))
        with self.stream_scope(), theirs:
            yield

    def collectives(self, devices: Sequence[Device]) -> Sequence[Collectives] | None:
        """NCCL's or RCCL's, if CuPy has it."""
        from portable_backends.cuda import nccl

        return nccl.in_one_process([d.index for d in devices if isinstance(d, CuPyDevice)])

    def before_waits(self, ready: Callable[[], None]) -> AbstractContextManager[None]:
        """Loading programs, taking memory and copies from and to the host are such waits."""
        return before_waits(ready)

    def collectives_key(self) -> object | None:
        """NCCL's name for a new group of processes."""
        from portable_backends.cuda import nccl

        return nccl.key()

    def join_collectives(self, key: object, rank: int, size: int) -> Collectives:
        """A process of such a group."""
        from portable_backends.cuda import nccl

        with self.stream_scope():
            return nccl.joined(key, rank, size)

    def mark(self) -> Mark:
        """An event on the current stream."""
        with self.stream_scope():
            return CuPyMark(self._cupy.cuda.get_current_stream())

    def queue(self) -> Queue:
        """A stream that waits for no other."""
        from portable_backends.cuda.streams import CuPyStream

        return CuPyStream(self)

    def current_queue(self) -> int:
        """The address of CuPy's current stream on this device."""
        return int(self._cupy.cuda.get_current_stream(self.index).ptr)

    def memory(self) -> MemoryUse:
        """Of CuPy's pool, and of the driver."""
        with self.stream_scope():
            pool = self._cupy.get_default_memory_pool()
            free, total = self._cupy.cuda.runtime.memGetInfo()
            return MemoryUse(pool.used_bytes(), pool.total_bytes(), free, total)

    def annotation(self, name: str) -> AbstractContextManager[Any]:
        """A range of NVTX or rocTX, which Nsight and rocprof show."""
        from portable_backends.cuda.streams import annotated

        return annotated(name)

    def noting(self, recording: timeline.Recording, entry: timeline.Entry) -> Callable[[], None]:
        """Begins to record what is enqueued on the current stream, and names it to Nsight."""
        annotation = self.annotation(entry.name)
        annotation.__enter__()
        queue = self._cupy.cuda.get_current_stream().ptr
        finish = recording.started(self, entry, queue)

        def finished() -> None:
            finish()
            annotation.__exit__(None, None, None)

        return finished

    def adopt(self, array: Any) -> Any:
        """A CuPy array over another library's memory on this device."""
        from portable_backends.common.devices import device_type

        if is_tensor(array) and place_of(array) == (_DLPACK_KINDS[self.backend][0], self.index):
            return array_over(self._cupy, array, self.index)
        if device_type(array) in _DLPACK_KINDS[self.backend]:
            (taken,) = self.adopt_together((array,))
            if self.owns(taken):
                return taken
        raise DeviceMismatchError(
            f"{type(array).__module__}.{type(array).__name__} does not share memory with "
            f"{self.name}; copy it with portable.asarray(x, device={self.name!r})"
        )

    def adopt_together(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """CuPy arrays, whose memory their library gets back when launches are done with it all."""
        take = self._cupy.from_dlpack
        with self.stream_scope():
            shared = [take(x) for x in arrays]
        loan = self._loans.loan(shared)
        return [self._on_loan(x, loan) for x in shared]

    def _on_loan(self, shared: Any, loan: Loan) -> Any:
        """The same array, which holds the loan."""
        cuda = self._cupy.cuda
        memory = cuda.UnownedMemory(shared.data.ptr, shared.nbytes, loan, self.index)
        pointer = cuda.MemoryPointer(memory, 0)
        return self._array(shared.shape, shared.dtype, pointer, shared.strides)

    def _mark_of_loans(self) -> Mark | None:
        """A mark, but for streams that are being captured, on which no event can be asked for."""
        cuda = self._cupy.cuda
        stream = cuda.get_current_stream(self.index)
        if self.capabilities.replays and stream.is_capturing():
            return None
        if cuda.runtime.getDevice() != self.index:
            return self.mark()
        return CuPyMark(stream, timed=False)


def _level(architecture: str) -> tuple[int, int]:
    digits = architecture.removeprefix("sm_")
    return int(digits[:-1]), int(digits[-1])


class _CuPyBackend(Backend):
    """What the two builds of CuPy have in common."""

    name: str
    _driver_remedy: str

    def __init__(self) -> None:
        self._reason = ""
        self._remedy = f"pip install 'portable-arrays[{self.name}]'"

    def devices(self) -> Sequence[Device]:
        """The GPUs by CuPy's numbers; CuPy is imported only where a driver is installed."""
        if not self._has_driver():
            return self._none("its driver is not installed", f"{self._driver_remedy}, then ")
        if find_spec("cupy") is None:
            return self._none("CuPy is not installed")
        try:
            from cupy_backends.cuda.api import runtime

            if bool(runtime.is_hip) != (self.name == "rocm"):
                return self._none("the CuPy installed here is built for the other kind of GPU")
            count = runtime.getDeviceCount()
            return [self._device(runtime, i) for i in range(count)] or self._none("no GPU is here")
        except (ImportError, OSError, RuntimeError) as error:
            return self._none(f"CuPy cannot be used ({error})")

    def _none(self, reason: str, before: str = "") -> Sequence[Device]:
        self._reason = reason
        self._remedy = f"{before}pip install 'portable-arrays[{self.name}]'"
        return ()

    @abstractmethod
    def _has_driver(self) -> bool:
        """Whether the driver of these GPUs is here."""

    @abstractmethod
    def _device(self, runtime: Any, index: int) -> Device:
        """The GPU of an index."""

    def unavailable(self) -> Unavailable:
        """What is missing."""
        return Unavailable(self.name, self._reason, self._remedy)

    def array_types(self) -> tuple[str, ...]:
        """That of CuPy."""
        return ("cupy",)


class CUDABackend(_CuPyBackend):
    """NVIDIA GPUs."""

    name = "cuda"
    _driver_remedy = "install NVIDIA's driver"

    def _has_driver(self) -> bool:
        library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        try:
            ctypes.CDLL(library)
        except OSError:
            return False
        return True

    def _device(self, runtime: Any, index: int) -> Device:
        from portable_backends.cuda.capabilities import cuda_capabilities

        version = runtime.driverGetVersion()
        driver = f"{version // 1000}.{version % 1000 // 10}"
        properties = runtime.getDeviceProperties(index)
        return CuPyDevice(self.name, index, cuda_capabilities(properties, driver))


class ROCmBackend(_CuPyBackend):
    """AMD GPUs."""

    name = "rocm"
    _driver_remedy = "install AMD's ROCm"

    def _has_driver(self) -> bool:
        return Path("/dev/kfd").exists()

    def _device(self, runtime: Any, index: int) -> Device:
        from portable_backends.cuda.capabilities import rocm_capabilities

        properties = runtime.getDeviceProperties(index)
        driver = str(runtime.driverGetVersion())
        return CuPyDevice(self.name, index, rocm_capabilities(properties, driver))
