"""Compiles CUDA C++ with NVRTC and HIP C++ with hiprtc; needs no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Final
from weakref import WeakValueDictionary

from portable.backend import Program
from portable.errors import CompileError
from portable.system import cache
from portable.system.locks import fork_safe_lock
from portable_backends.cuda.rtc_library import (
    CompilerError,
    RuntimeCompiler,
    cuda_folders,
    hiprtc,
    nvrtc,
    rocm_folder,
)

_HEADER = "cuda_fp16.h"

_under_way: Final[WeakValueDictionary[str, RLock]] = WeakValueDictionary()
"""Locks of programs that are compiled just now: threads of several GPUs need the same ones."""


def cuda_target(major: int, minor: int) -> str:
    """The architecture to compile for: with Hopper's own instructions on 9.0, plain elsewhere."""
    return "sm_90a" if (major, minor) == (9, 0) else f"sm_{major}{minor}"


def include_folder() -> Path | None:
    """The folder of CUDA's headers: of NVIDIA's wheels, else of an installed toolkit."""
    folders = (folder / "include" for folder in cuda_folders())
    return next((f for f in folders if (f / _HEADER).exists()), None)


def compile_cuda(program: Program, target: str, driver: str = "") -> bytes:
    """A cubin for `target` (such as ``"sm_90a"``), from the disk cache where it is there.

    Parameters
    ----------
    program : Program
        CUDA C++ with an ``extern "C"`` kernel.
    target : str
        The architecture.
    driver : str
        The driver's version, part of the cache's key.

    Raises
    ------
    CompileError
        With NVRTC's log.
    """
    folder = include_folder()
    include = (f"-I{folder}",) if folder else ()
    options = (f"-arch={target}", "--std=c++17", *include, *program.flags)
    return _compiled(nvrtc(), "NVRTC", program, options, driver)


def compile_hip(program: Program, target: str, driver: str = "") -> bytes:
    """A code object for `target` (such as ``"gfx90a"``), from the disk cache where it is there."""
    include = f"-I{rocm_folder() / 'include'}"
    options = (f"--offload-arch={target}", "-std=c++17", include, *program.flags)
    return _compiled(hiprtc(), "hiprtc", program, options, driver)


def _compiled(
    compiler: RuntimeCompiler, title: str, program: Program, options: Sequence[str], driver: str
) -> bytes:
    name = cache.key(title, compiler.version, driver, " ".join(options), program.source)
    lock = _under_way.setdefault(name, fork_safe_lock())
    with lock:
        code = cache.load(name)
        if code is None:
            try:
                code = compiler.compile(program.source, f"{program.entry}.cu", options)
            except CompilerError as error:
                message = f"{title} refused kernel {program.entry} ({' '.join(options)})"
                raise CompileError(message, program.source, str(error)) from None
            cache.store(name, code)
    return code
