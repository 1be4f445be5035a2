"""Every exception that Portable raises on purpose.

Each also derives from the built-in exception that a caller would expect to catch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

__all__ = [
    "BackendUnavailableError",
    "BadIndexError",
    "CheckError",
    "CompileError",
    "DTypeError",
    "DataError",
    "DeviceError",
    "DeviceFaultError",
    "DeviceMismatchError",
    "InterruptedLaunchError",
    "KernelError",
    "LaunchError",
    "Location",
    "OutOfMemoryError",
    "OutsideKernelError",
    "PortableError",
    "Remark",
    "ShapeError",
    "SimulationError",
    "UnsupportedError",
    "without_frames",
]


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's source.

    Attributes
    ----------
    file : str
        Its path.
    line, column : int
        Both count from 1.
    function : str
        The kernel or helper that it is in.
    called : Location or None
        Of a helper: where it was called from. Places compare without this and the function.
    """

    file: str
    line: int
    column: int = 1
    function: str = field(default="", compare=False)
    called: Location | None = field(default=None, compare=False)

    @property
    def calls(self) -> str:
        """How the kernel got here, a line per call; empty where that is not known."""
        if self.called is not None:
            return f"  in {self.function}, called at {self.called}\n{self.called.calls}"
        return f"  in the kernel {self.function}" if self.function else ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class PortableError(Exception):
    """Base of every exception that Portable raises on purpose."""


def without_frames(error: PortableError) -> PortableError:
    """The error without the library's own frames, for a caller that raises it ``from None``.

    With ``PORTABLE_TRACEBACK=full`` in the environment it keeps them.
    """
    if os.environ.get("PORTABLE_TRACEBACK") == "full":
        return error
    return error.with_traceback(None)


class Remark(UserWarning):
    """A kernel that compiles and may not do what its author meant, with the line; given once.

    ``warnings.filterwarnings("ignore", category=portable.errors.Remark)`` silences all of them.
    """


class DTypeError(PortableError, TypeError):
    """An element type that the operation or the device does not take."""


class ShapeError(PortableError, ValueError):
    """Shapes that do not fit together or an extent out of range."""


class BadIndexError(ShapeError, IndexError):
    """An index out of range, or of a kind that arrays do not take."""


class DataError(PortableError, ValueError):
    """A file that does not hold what it should, or data that an operation cannot work with."""


class DeviceError(PortableError, ValueError):
    """A device name that is malformed or names no device that was found."""


class BackendUnavailableError(PortableError, ImportError):
    """A backend whose library, driver or device is missing; the message says how to get it."""


class DeviceMismatchError(PortableError, ValueError):
    """Arrays of different devices in one call."""


class UnsupportedError(PortableError, TypeError):
    """Something the language has but this device lacks, such as double precision."""


class OutsideKernelError(PortableError, RuntimeError):
    """A word or a helper of the kernel language, called where no kernel is being compiled."""


class KernelError(PortableError, SyntaxError):
    """A construct that the kernel language refuses, with the user's file, line and column.

    Parameters
    ----------
    reason : str
        What is wrong.
    location : Location or None
        Where in the user's source.
    hint : str
        What to write instead.
    source_line : str
        The text of the offending line, quoted in the message.
    """

    def __init__(
        self, reason: str, location: Location | None = None, hint: str = "", source_line: str = ""
    ) -> None:
        self.reason = reason
        self.location = location
        self.hint = hint
        text = f"{location}: {reason}" if location else reason
        if source_line and location:
            marker = " " * (location.column - 1) + "^"
            text += f"\n    {source_line.rstrip()}\n    {marker}"
        if hint:
            text += f"\n  {hint}"
        if location and location.calls:
            text += f"\n{location.calls}"
        super().__init__(text)

    def __str__(self) -> str:
        return str(self.args[0])


class CompileError(PortableError, RuntimeError):
    """A device compiler refused generated source; carries the source and the compiler's log.

    Attributes
    ----------
    source : str
        The generated source.
    log : str
        What the device compiler printed.
    """

    def __init__(self, message: str, source: str, log: str) -> None:
        self.source = source
        self.log = log
        numbered = "\n".join(f"{i:5} {s}" for i, s in enumerate(source.splitlines(), 1))
        super().__init__(f"{message}\n--- compiler log ---\n{log}\n--- source ---\n{numbered}")


class LaunchError(PortableError, ValueError):
    """A launch that cannot run: bad ndrange, workgroup, arguments or too much local memory."""


class OutOfMemoryError(PortableError, MemoryError):
    """The device has no room for an allocation."""


class InterruptedLaunchError(KeyboardInterrupt):
    """Ctrl-C while a kernel ran on the processor that does not end.

    The kernel goes on, since OpenCL ends none. What it was given is kept, and not to be used; the
    process ends without waiting for it, with status 130.
    """


class DeviceFaultError(PortableError, RuntimeError):
    """The device reported a fault while running earlier work."""


class CheckError(PortableError, RuntimeError):
    """A check in a kernel failed: an index out of bounds, or a condition of `kl.check`.

    Compiled kernels check with ``PORTABLE_CHECK=1`` in the environment and report the first failure
    at the next synchronisation; the simulator always checks.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    location : Location
        Where in the user's source.
    work_item : tuple of int or None
        The global id of the work-item.
    array : str or None
        The array that was indexed; None for `kl.check`.
    index, shape : tuple of int or None
        The index, and the array's shape.
    """

    kernel: str
    location: Location
    work_item: tuple[int, ...] | None = None
    array: str | None = None
    index: tuple[int, ...] | None = None
    shape: tuple[int, ...] | None = None


class SimulationError(PortableError, RuntimeError):
    """The simulator found a fault in a kernel: a race, a bad index, a divergent barrier, ..."""
