"""Compiles CUDA C++ with NVRTC and HIP C++ with hiprtc; needs no GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache as kept_in_process
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import Final, Literal
from weakref import WeakValueDictionary

from portable.backend import Program
from portable.errors import BackendUnavailableError, CompileError
from portable.system import cache
from portable.system.locks import fork_safe_lock
from portable_backends.cuda.runtime_compiler import CompilerError, RuntimeCompiler

_CUDA_MAJORS = (13, 12)


@kept_in_process
def nvrtc(product: Literal["CUBIN", "PTX"] = "CUBIN") -> RuntimeCompiler:
    """NVIDIA's compiler, of its wheels or an installed toolkit, for machine code or assembly.

    Raises
    ------
    BackendUnavailableError
        If there is none.
    """
    return _first(_nvrtc_candidates(), "nvrtc", product, "cuda")


@kept_in_process
def hiprtc() -> RuntimeCompiler:
    """AMD's compiler, of an installed ROCm.

    Raises
    ------
    BackendUnavailableError
        If there is none.
    """
    names = (str(rocm_folder() / "lib" / "libhiprtc.so"), "libhiprtc.so")
    return _first(iter(names), "hiprtc", "Code", "rocm")


def _first(libraries: Iterator[str], prefix: str, product: str, extra: str) -> RuntimeCompiler:
    for library in libraries:
        try:
            return RuntimeCompiler(library, prefix, product)
        except OSError:
            continue
    raise BackendUnavailableError(
        f"the compiler {prefix} is not installed; pip install 'portable-arrays[{extra}]'"
    )


def _nvrtc_candidates() -> Iterator[str]:
    if sys.platform == "win32":
        patterns, names = (
            ("bin/x86_64/nvrtc64_*_0.dll", "bin/nvrtc64_*_0.dll"),
            ["nvrtc64_{}0_0.dll"],
        )
    else:
        patterns, names = ("lib/libnvrtc.so.*", "lib64/libnvrtc.so.*"), ["libnvrtc.so.{}"]
    for folder in cuda_folders():
        for pattern in patterns:
            yield from (str(f) for f in sorted(folder.glob(pattern), reverse=True))
    yield from (name.format(major) for major in _CUDA_MAJORS for name in names)


def cuda_folders() -> Iterator[Path]:
    """Where parts of CUDA's toolkit may lie: NVIDIA's wheels first, then installed toolkits."""
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        yield from sorted(Path(root).glob("*"), reverse=True)
    for variable in ("CUDA_PATH", "CUDA_HOME"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    yield Path("/usr/local/cuda")


def rocm_folder() -> Path:
    """Where ROCm is installed."""
    return Path(os.environ.get("ROCM_HOME") or os.environ.get("ROCM_PATH") or "/opt/rocm")


_HEADER = "cuda_fp16.h"

_under_way: Final[WeakValueDictionary[str, RLock]] = WeakValueDictionary()
"""Locks of programs that are compiled just now: threads of several GPUs need the same ones."""

_inside: Final = fork_safe_lock()
"""Held while a program is compiled in this process."""


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
                code = _made(compiler, program.source, f"{program.entry}.cu", options)
            except CompilerError as error:
                message = f"{title} refused kernel {program.entry} ({' '.join(options)})"
                raise CompileError(message, program.source, str(error)) from None
            cache.store(name, code)
    return code


def _made(compiler: RuntimeCompiler, source: str, name: str, options: Sequence[str]) -> bytes:
    """Machine code; in a process of its own where one is compiled in this one already.

    Compilers let one thread after the other in.
    """
    if not _inside.acquire(blocking=False):
        code = compiler.compile_apart(source, name, options)
        if code is not None:
            return code
        _inside.acquire()
    try:
        return compiler.compile(source, name, options)
    finally:
        _inside.release()
