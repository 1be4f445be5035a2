"""Compilers and raw OpenCL devices for tests of generated source, launched without a backend.

What NVRTC made of a program, and that hipcc accepted one, is kept with other compiled programs: the
same compiler is not given the same text again.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np

from portable.backend import Capabilities, Program
from portable.backend.capabilities import INTEL_CPU, NVIDIA, POCL
from portable.errors import BackendUnavailableError, CompileError
from portable.system import cache
from portable_backends.cuda.rtc import include_folder, nvrtc
from portable_backends.cuda.runtime_compiler import CompilerError

CUDA = Capabilities(
    dialect="cuda",
    kind="gpu",
    vendor="nvidia",
    architecture="sm_90",
    name="H200",
    driver="test",
    float64=True,
    native_half=True,
    sub_group_size=32,
    matrix_units=frozenset({"mma.f16", "mma.tf32", "mma.f64"}),
    async_copy=frozenset({"vector", "bulk"}),
    local_memory=48 * 1024,
    local_memory_opt_in=227 * 1024,
    max_workgroup=1024,
    max_workgroup_shape=(1024, 1024, 64),
    float_atomics=True,
    atomic_lanes=4,
    memory_orders="acq_rel",
    forward_progress=True,
    faults=NVIDIA,
)

HIP = Capabilities(
    dialect="hip",
    kind="gpu",
    vendor="amd",
    architecture="gfx90a",
    name="MI250",
    driver="test",
    float64=True,
    native_half=True,
    sub_group_size=64,
    local_memory=64 * 1024,
    local_memory_opt_in=64 * 1024,
    max_workgroup=1024,
    max_workgroup_shape=(1024, 1024, 1024),
    float_atomics=True,
    memory_orders="acq_rel",
)


# -- CUDA -------------------------------------------------------------------------------------


def cuda_missing() -> str:
    """Why CUDA source cannot be compiled here; empty where it can."""
    try:
        nvrtc("PTX")
    except BackendUnavailableError as error:
        return str(error)
    return "" if include_folder() else "the CUDA headers (nvidia-cuda-runtime) are missing"


def compile_cuda(program: Program, architecture: str = "sm_90", *, optimised: bool = False) -> str:
    """Compiles to PTX with NVRTC, which needs no GPU, and returns it.

    Parameters
    ----------
    program : Program
    architecture : str
    optimised : bool
        Whether the PTX is that of the program when it runs, to be looked at.

    Raises
    ------
    CompileError
        With the log.
    """
    options = (f"-arch={architecture}", *program.flags)
    if not optimised:
        options = (*options, *_quick_cuda())
    name = cache.key("PTX", _nvrtc_versions(), " ".join(options), program.source)
    ptx = cache.load(name)
    if ptx is None:
        ptx = _by_nvrtc(program, options)
        cache.store(name, ptx)
    return ptx.rstrip(b"\0").decode()


def _quick_cuda() -> tuple[str, ...]:
    """Acceptance is what is checked, which takes NVRTC a fifth of the time that optimising does."""
    knows = int(nvrtc("PTX").version.partition(".")[0]) >= 13
    return ("--Ofast-compile=max",) if knows else ()


def _by_nvrtc(program: Program, options: Sequence[str]) -> bytes:
    try:
        return nvrtc("PTX").compile(
            program.source, "kernel.cu", (*options, f"-I{include_folder()}")
        )
    except CompilerError as error:
        raise CompileError("NVRTC refused the source", program.source, str(error)) from None


@functools.cache
def _nvrtc_versions() -> str:
    """Of the compiler and of its headers, which lie elsewhere in each environment."""
    wheels = [d for d in distributions() if d.name.startswith("nvidia-cuda")]
    return " ".join([nvrtc("PTX").version, *sorted(f"{d.name} {d.version}" for d in wheels)])


def compile_cuda_together(programs: Sequence[Program]) -> None:
    """Compiles many with few calls of NVRTC, which takes longer to begin than over most of them.

    Raises
    ------
    CompileError
        With the log of the first one that is refused.
    """

    def compiled(program: Program) -> object:
        return _by_nvrtc(program, ("-arch=sm_90", *program.flags, *_quick_cuda()))

    _together(programs, compiled, _nvrtc_versions())


# -- HIP --------------------------------------------------------------------------------------


def hip_missing() -> str:
    """Why HIP source cannot be compiled here; empty where it can."""
    return "" if shutil.which("hipcc") else "hipcc is missing (Debian: apt-get install hipcc)"


def compile_hip(program: Program, architecture: str = "gfx90a") -> None:
    """Compiles with hipcc; raises `CompileError` with the log."""
    options = [f"--offload-arch={architecture}", *program.flags]
    name = cache.key("hipcc", _hipcc_version(), " ".join(options), program.source)
    if cache.load(name) is None:
        _by_hipcc(program, options)
        cache.store(name, b"")


def _by_hipcc(program: Program, options: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.hip"
        source.write_text("#include <hip/hip_runtime.h>\n" + program.source)
        command = ["hipcc", "--genco", *options, "-o", str(Path(folder) / "kernel.co"), str(source)]
        done = subprocess.run(
            command,
            # clang leaves a folder of its own behind
            env=os.environ | {"HIP_PLATFORM": "amd", "TMPDIR": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise CompileError("hipcc refused the source", program.source, done.stderr)


@functools.cache
def _hipcc_version() -> str:
    env = os.environ | {"HIP_PLATFORM": "amd"}
    return subprocess.check_output(["hipcc", "--version"], env=env, text=True)


def compile_hip_together(programs: Sequence[Program]) -> None:
    """Compiles many with few calls of hipcc, which takes longer to begin than over most of them.

    Raises
    ------
    CompileError
        With the log of the first one that is refused.
    """

    def compiled(program: Program) -> None:
        _by_hipcc(program, ("--offload-arch=gfx90a", *program.flags))

    _together(programs, compiled, _hipcc_version(), _QUICK)


# -- many at once -----------------------------------------------------------------------------

_BATCH = 60
_MANY = 100
"""Of so many parameters clang 15 dies without optimising, and all that it was given with them."""
_QUICK = "-O0"
"""Acceptance is what is checked, which takes half of the time of -O1. At -O3 LLVM takes minutes
over some kernels of a workgroup of one, in which it knows every index and follows every value
through local memory."""


def _together(
    programs: Sequence[Program], compiled: Callable[[Program], object], compiler: str, *flags: str
) -> None:
    """Programs that include the same headers, some at a time, less those once accepted."""
    alike: dict[tuple[str, ...], dict[str, Program]] = {}
    for program in programs:
        name = cache.key("accepted", compiler, " ".join(program.flags), program.source)
        if cache.load(name) is not None:
            continue
        apart = _includes(program) if len(program.arguments) < _MANY else (name,)
        alike.setdefault(apart, {})[name] = program
    for found in alike.values():
        names = list(found)
        for first in range(0, len(names), _BATCH):
            some = names[first : first + _BATCH]
            _accept([found[name] for name in some], compiled, flags)
            for name in some:
                cache.store(name, b"")


def _accept(
    programs: Sequence[Program], compiled: Callable[[Program], object], flags: Sequence[str]
) -> None:
    """Those that are refused in halves: one may be right that does not bear company, or flags."""
    if len(programs) == 1:
        compiled(programs[0])
        return
    try:
        compiled(_joined(programs, flags))
    except CompileError:
        middle = len(programs) // 2
        _accept(programs[:middle], compiled, flags)
        _accept(programs[middle:], compiled, flags)


def _includes(program: Program) -> tuple[str, ...]:
    return tuple(x for x in program.source.splitlines() if x.startswith("#include"))


def _joined(programs: Sequence[Program], flags: Sequence[str]) -> Program:
    """One source of them all, each in a namespace."""
    parts = [*_includes(programs[0])]
    for number, program in enumerate(programs):
        lines = (x for x in program.source.splitlines() if not x.startswith("#include"))
        named = f"{program.entry}_{number}"
        text = re.sub(rf"\b{program.entry}\b(?=\()", named, "\n".join(lines), count=1)
        parts.append(f"namespace p{number} {{\n{text}\n}}\n")
    wanted = dict.fromkeys(flag for program in programs for flag in program.flags)
    return replace(programs[0], source="\n".join(parts), flags=(*wanted, *flags))


# -- OpenCL -----------------------------------------------------------------------------------


class OpenCLDevice:
    """One OpenCL device, with arrays passed as buffers plus offsets."""

    def __init__(self, device: Any) -> None:
        import pyopencl as cl

        self._cl = cl
        self._context = cl.Context([device])
        self._queue = cl.CommandQueue(self._context)
        self._built: dict[str, Any] = {}
        intel = "Intel" in device.platform.name
        self.name = "intel" if intel else "pocl"
        self.capabilities = Capabilities(
            dialect="opencl",
            kind="cpu",
            vendor="intel" if intel else "pocl",
            architecture=device.name,
            name=device.name,
            driver=device.driver_version,
            float64=True,
            native_half="cl_khr_fp16" in device.extensions,
            sub_group_size=16 if "cl_intel_required_subgroup_size" in device.extensions else 1,
            local_memory=device.local_mem_size,
            local_memory_opt_in=device.local_mem_size,
            local_memory_dedicated=False,
            single_work_items=True,
            streaming_stores=True,
            max_workgroup=device.max_work_group_size,
            max_workgroup_shape=tuple(device.max_work_item_sizes),
            vector_bytes=64,
            vectorizes_work_items=True,
            memory_orders="acq_rel",
            rounded_division32=bool(device.single_fp_config & (1 << 7)),
            pointer_offsets=True,
            faults=INTEL_CPU if intel else POCL,
        )

    def run(
        self,
        program: Program,
        groups: Sequence[int],
        arguments: Sequence[Any],
        sizes: Sequence[int] = (),
    ) -> list[Any]:
        """Runs a program; `arguments` holds an array or number per kernel parameter, in order.

        `sizes` are the work-items along each dimension, for programs that ask for them.

        Copies of the arrays are passed; what is left in them comes back, in order.
        """
        cl = self._cl
        kernel = cl.Kernel(self._build(program), program.entry)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        copies = [np.array(a) if isinstance(a, np.ndarray) else None for a in arguments]
        buffers = [
            None if c is None else cl.Buffer(self._context, flags, hostbuf=c) for c in copies
        ]
        passed = []
        for item in program.arguments:
            if item.kind == "size":
                passed.append(item.type.numpy.type(sizes[item.dim]))
                continue
            value, copy = arguments[item.parameter], copies[item.parameter]
            size = np.uint8 if item.type.kind == "b" else item.type.numpy.type
            if item.kind == "scalar":
                passed.append(size(value))
                continue
            assert copy is not None
            match item.kind:
                case "pointer":
                    passed.append(buffers[item.parameter])
                case "offset":
                    passed.append(size(0))
                case "extent":
                    passed.append(size(copy.shape[item.dim]))
                case "stride":
                    passed.append(size(copy.strides[item.dim] // copy.itemsize))
        local = program.workgroup
        total = tuple(g * w for g, w in zip((*groups, 1, 1), local, strict=False))
        kernel(self._queue, total, local, *passed)
        for copy, buffer in zip(copies, buffers, strict=True):
            if copy is not None:
                cl.enqueue_copy(self._queue, copy, buffer)
        self._queue.finish()
        return copies

    def _build(self, program: Program) -> Any:
        if program.source not in self._built:
            self._built[program.source] = self._compile(program)
        return self._built[program.source]

    def _compile(self, program: Program) -> Any:
        from portable_backends.opencl.runtime import options_for

        built = self._cl.Program(self._context, program.source)
        options = options_for(self._context.devices[0], self.capabilities, program.flags)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return built.build(options, cache_dir=False)
        except self._cl.RuntimeError as error:
            raise CompileError("OpenCL refused the source", program.source, str(error)) from None


@functools.cache
def opencl_devices() -> tuple[OpenCLDevice, ...]:
    """Intel's CPU runtime and PoCL, as far as they are installed and know this processor."""
    if importlib.util.find_spec("pyopencl") is None:
        return ()
    import pyopencl as cl

    from portable_backends.opencl.discovery import find

    # Before the driver loads. PoCL 3.0 forgets the kernels of programs in its own cache that pass
    # 64-byte vectors to built-in functions.
    os.environ.setdefault("POCL_KERNEL_CACHE", "0")
    found: dict[str, OpenCLDevice] = {}
    for device in find():
        if device.type & cl.device_type.CPU:
            own = OpenCLDevice(device)
            found.setdefault(own.name, own)
    return tuple(found[name] for name in sorted(found))
