"""Compiles CUDA C++ with NVRTC and HIP C++ with hiprtc, through CuPy's bindings; needs no GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from portable import cache
from portable.backend import Program
from portable.errors import CompileError

__all__ = ["compile_cuda", "compile_hip", "cuda_target", "include_folder"]

_HEADER = "cuda_fp16.h"


def cuda_target(major: int, minor: int) -> str:
    """The architecture to compile for: with Hopper's own instructions on 9.0, plain elsewhere."""
    return "sm_90a" if (major, minor) == (9, 0) else f"sm_{major}{minor}"


def include_folder() -> Path | None:
    """The folder of CUDA's headers: of NVIDIA's wheels, else of an installed toolkit."""
    return next((f for f in _include_candidates() if (f / _HEADER).exists()), None)


def _include_candidates() -> Iterator[Path]:
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        yield from sorted(Path(root).glob("*/include"), reverse=True)
    for variable in ("CUDA_PATH", "CUDA_HOME"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "include"
    yield Path("/usr/local/cuda/include")


def compile_cuda(program: Program, target: str, driver: str) -> bytes:
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
    return _compiled(program, options, driver, "NVRTC")


def compile_hip(program: Program, target: str, driver: str) -> bytes:
    """A code object for `target` (such as ``"gfx90a"``), from the disk cache where it is there."""
    folder = Path(os.environ.get("ROCM_HOME") or os.environ.get("ROCM_PATH") or "/opt/rocm")
    options = (f"--offload-arch={target}", "-std=c++17", f"-I{folder / 'include'}", *program.flags)
    return _compiled(program, options, driver, "hiprtc")


def _compiled(program: Program, options: Sequence[str], driver: str, compiler: str) -> bytes:
    from cupy_backends.cuda.libs import nvrtc

    version = ".".join(str(part) for part in nvrtc.getVersion())
    name = cache.key(compiler, version, driver, " ".join(options), program.source)
    found = cache.load(name)
    if found is None:
        found = _compile(program, options, compiler)
        cache.store(name, found)
    return found


def _compile(program: Program, options: Sequence[str], compiler: str) -> bytes:
    """CuPy for ROCm gives hiprtc's functions NVRTC's names; its code objects come as PTX."""
    from cupy_backends.cuda.libs import nvrtc

    handle = nvrtc.createProgram(program.source, f"{program.entry}.cu", (), ())
    try:
        nvrtc.compileProgram(handle, tuple(options))
        get = nvrtc.getCUBIN if compiler == "NVRTC" else nvrtc.getPTX
        code: bytes = get(handle)
        return code
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(handle) or str(error)
        message = f"{compiler} refused kernel {program.entry} ({' '.join(options)})"
        raise CompileError(message, program.source, log) from None
    finally:
        nvrtc.destroyProgram(handle)
