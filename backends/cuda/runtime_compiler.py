"""NVRTC and hiprtc, whose interfaces differ by name alone, through ctypes.

Run as a script, it compiles its standard input. It needs nothing but Python, to begin at once, and
imports nothing of ours: a process of its own does not find it.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

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
