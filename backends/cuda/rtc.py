"""Compiles CUDA C++ with NVRTC and HIP C++ with hiprtc; needs no GPU."""

from __future__ import annotations

import ctypes
import os
import subprocess
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
from portable.system.files import fork_safe_lock

# NVRTC and hiprtc, whose interfaces differ by name alone, through ctypes.
#
# Run as a script, it compiles its standard input; it needs nothing but Python, to begin at once.


_REFUSED = 3
"""The exit status of a process whose compiler refused the source."""


class CompilerError(Exception):
    """What the compiler printed when it refused a source."""


class RuntimeCompiler:
    """A shared library that compiles source in memory.

    Parameters
    ----------
    library : str
        File name or path.
    prefix : {"nvrtc", "hiprtc"}
        How its functions' names begin.
    product : {"CUBIN", "PTX", "Code"}
        How its functions name what they make.
    """

    def __init__(self, library: str, prefix: str, product: str) -> None:
        self._library = ctypes.CDLL(library)
        self._named = library, prefix, product
        self._prefix = prefix
        self._product = product

    @property
    def version(self) -> str:
        """Such as ``"13.0"``."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("Version", ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def compile(self, source: str, name: str, options: Sequence[str]) -> bytes:
        """Machine code for `source`.

        Raises
        ------
        CompilerError
            With the compiler's log.
        """
        program = ctypes.c_void_p()
        created = ctypes.byref(program)
        self._call("CreateProgram", created, source.encode(), name.encode(), 0, None, None)
        try:
            texts = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
            if self._code("CompileProgram", program, len(options), texts):
                log = self._read("GetProgramLog", program)
                raise CompilerError(log.rstrip(b"\0").decode(errors="replace"))
            return self._read(f"Get{self._product}", program)
        finally:
            self._call("DestroyProgram", created)

    def compile_apart(self, source: str, name: str, options: Sequence[str]) -> bytes | None:
        """As `compile`, in a process of its own; None where there can be none, or it is lost."""
        if not Path(sys.executable or "").stem.startswith("python"):
            return None  # a program that Python is part of would be started once more
        command = [sys.executable, "-I", "-S", __file__, *self._named, name, *options]
        try:
            done = subprocess.run(  # noqa: S603 - the command is our own
                command, input=source.encode(), capture_output=True, check=False
            )
        except OSError:
            return None
        if done.returncode == _REFUSED:
            raise CompilerError(done.stdout.decode(errors="replace"))
        return None if done.returncode else done.stdout

    def _read(self, function: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"{function}Size", program, ctypes.byref(size))
        memory = ctypes.create_string_buffer(size.value)
        self._call(function, program, memory)
        return memory.raw

    def _code(self, function: str, *arguments: object) -> int:
        return int(getattr(self._library, self._prefix + function)(*arguments))

    def _call(self, function: str, *arguments: object) -> None:
        code = self._code(function, *arguments)
        if code:
            raise CompilerError(f"{self._prefix}{function} returned error {code}")


def main(library: str, prefix: str, product: str, name: str, *options: str) -> int:
    """Writes machine code for the standard input, or the compiler's log, to the standard output."""
    source, status = sys.stdin.buffer.read().decode(), 0
    try:
        answer = RuntimeCompiler(library, prefix, product).compile(source, name, options)
    except CompilerError as error:
        answer, status = str(error).encode(), _REFUSED
    sys.stdout.buffer.write(answer)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))


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


# -- rtc -------------------------------------------------------------------------------------------

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
