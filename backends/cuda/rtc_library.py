"""NVRTC and hiprtc, whose interfaces differ by name alone, through ctypes."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from portable.errors import BackendUnavailableError

_CUDA_MAJORS = (13, 12)


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


@cache
def nvrtc(product: Literal["CUBIN", "PTX"] = "CUBIN") -> RuntimeCompiler:
    """NVIDIA's compiler, of its wheels or an installed toolkit, for machine code or assembly.

    Raises
    ------
    BackendUnavailableError
        If there is none.
    """
    return _first(_nvrtc_candidates(), "nvrtc", product, "cuda")


@cache
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
