"""Compiles in a separate process what may crash the compiler.

A compiler that crashes takes down whoever called it. Programs that are known to bring that about
(`portable.backend.program.Program.hazards`) are compiled over there, and only what comes of them is
taken over; if the compiler does crash, they are compiled once more without its optimisations, which
is where compilers crash. So is, at once, what these are known to get wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Final

import pyopencl as cl

from portable.backend.capabilities import Fault
from portable.backend.program import Program
from portable.errors import CompileError
from portable.system import cache
from portable.system.console import warn_once

_PATIENCE: Final = 300.0
"""Seconds after which a compiler is taken to hang."""

_PLAIN: Final = "-cl-opt-disable"
_FINE, _REFUSED = 0, 3
_EXCEPTIONS: Final = 0x80000000


class IsolatedCompiler:
    """The compiler of one device, called in processes of their own.

    Parameters
    ----------
    device : pyopencl.Device
        Whose compiler.
    """

    def __init__(self, device: cl.Device) -> None:
        self._wanted = described(device)

    def compile(self, program: Program, options: list[str]) -> tuple[bytes, list[str]]:
        """The binary of a program, and the options that it could be compiled with.

        Nothing and the options given if it is an ordinary error, or if there can be no such
        process: then whoever compiles it here is told what is wrong.

        Raises
        ------
        CompileError
            If the compiler crashes whatever the options.
        """
        plain = [*options, _PLAIN]
        for tried in (plain,) if Fault.LOST_ROUNDS in program.hazards else (options, plain):
            try:
                status, binary = self._compile(program.source, tried)
            except (OSError, subprocess.TimeoutExpired):
                return b"", options
            if status == _FINE:
                if tried is plain and Fault.LOST_ROUNDS not in program.hazards:
                    warn_once(_explained(program) + "; it runs without its optimisations, slower")
                return binary, tried
            if not _crashed(status):
                return b"", options
        raise CompileError(_explained(program), program.source, "the compiler crashed")

    def options(self, program: Program, options: list[str]) -> list[str]:
        """As `compile`, for those who cannot take a binary over: the options alone."""
        name = cache.key("options", program.source, " ".join(options), *self._wanted.values())
        kept = cache.load(name)
        if kept is not None:
            return kept.decode().split()
        _, code = self.compile(program, options)
        cache.store(name, " ".join(code).encode())
        return code

    def takes(self, source: str, options: list[str]) -> bool:
        """Whether the compiler neither refuses a text nor crashes on it."""
        try:
            status, _ = self._compile(source, options)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return status == _FINE

    def _compile(self, source: str, options: list[str]) -> tuple[int, bytes]:
        given = {"wanted": self._wanted, "source": source, "options": options}
        done = in_process(__name__, given, _PATIENCE)
        return done.returncode, done.stdout


def in_process(module: str, given: object, patience: float) -> subprocess.CompletedProcess[bytes]:
    """What came of running a module by itself, with so much patience, in seconds.

    Parameters
    ----------
    module : str
        Its name.
    given : object
        What it finds on its standard input, as JSON.
    patience : float

    Raises
    ------
    OSError
        If there can be no such process.
    subprocess.TimeoutExpired
        If it takes longer.
    """
    return subprocess.run(  # noqa: S603 - the command is our own
        [sys.executable, "-P", "-m", module],  # -P: nothing of the current folder
        input=json.dumps(given).encode(),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        timeout=patience,
        check=False,
    )


def _crashed(status: int) -> bool:
    """Whether a process ended by a signal, or as Windows ends one for an exception."""
    return status < 0 or status >= _EXCEPTIONS


def _explained(program: Program) -> str:
    return (
        f"the device's compiler crashes on kernel {program.entry}, whose loops are many or "
        "hold barriers: fewer such loops in one kernel, or less kept across them, may avoid it"
    )


def described(device: cl.Device) -> dict[str, str]:
    """What another process knows a device again by."""
    platform = device.platform
    return {
        "platform": platform.version,
        "device": device.name.strip(),
        "version": device.version,
        "driver": device.driver_version,
    }


def named(wanted: dict[str, str]) -> cl.Device:
    """The device that another process described."""
    from portable_backends.common import drivers

    drivers.announce()
    devices = [d for platform in cl.get_platforms() for d in platform.get_devices()]
    return next(d for d in devices if described(d) == wanted)


def compile_isolated() -> int:
    """Compiles what the standard input holds; the exit status says what came of it."""
    given = json.load(sys.stdin)
    answer = os.dup(1)
    os.dup2(2, 1)  # compilers may print to the standard output
    device = named(given["wanted"])
    try:
        program = cl.Program(cl.Context([device]), given["source"])
        built = program.build(given["options"], cache_dir=False)  # type: ignore[arg-type]
    except cl.Error:
        return _REFUSED
    (binary,) = built.get_info(cl.program_info.BINARIES)
    with os.fdopen(answer, "wb") as stream:
        stream.write(binary)
    return _FINE


if __name__ == "__main__":
    sys.exit(compile_isolated())
