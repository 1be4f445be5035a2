"""Launches of kernels that are compiled with checks: ``PORTABLE_CHECK=1``.

A checked program has one argument more, its device's report (`checked_kernels`), which
`CheckedExecutable` appends. Where NumPy reads the device's memory at once, a launch looks at the
report when it is done; elsewhere the next synchronisation does.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from portable.backend import Argument, ArrayView, Device, Executable, Program
from portable.errors import CheckError, LaunchError
from portable.lang.emit import generate
from portable.lang.ir.kernel import Kernel
from portable.lang.launch.checked_kernels import REPORT_WORDS, Site, checked
from portable.profiling import reports
from portable.system.locks import fork_safe_lock

_VARIABLE: Final = "PORTABLE_CHECK"
_reports: Final[dict[str, _Report]] = {}
_lock: Final = fork_safe_lock()


def checking() -> bool:
    """Whether kernels are compiled with checks.

    Raises
    ------
    LaunchError
        If ``PORTABLE_CHECK`` is neither 0, 1 nor unset.
    """
    text = os.environ.get(_VARIABLE, "").strip()
    if text not in ("", "0", "1"):
        raise LaunchError(f"{_VARIABLE} is {text!r}; it must be 1 or 0, or unset")
    return text == "1"


def compile_checked(
    kernel: Kernel, device: Device
) -> tuple[Program, tuple[Argument, ...], Executable]:
    """A kernel's program with checks, the arguments that launches give it, and what runs it."""
    made, sites = checked(kernel)
    program = generate(made, device.capabilities)
    given = tuple(a for a in program.arguments if a.parameter < len(kernel.parameters))
    hidden = program.arguments[len(given) :]
    report = _report_of(device)
    report.sites |= {site.number: site for site in sites}
    return program, given, CheckedExecutable(device.compile(program), report, hidden)


class CheckedExecutable(Executable):
    """A program whose last arguments are its device's report.

    Parameters
    ----------
    executable : Executable
        The program.
    report : _Report
        The report.
    hidden : sequence of Argument
        The arguments of the program that are it.
    """

    def __init__(self, executable: Executable, report: _Report, hidden: Sequence[Argument]) -> None:
        self._executable = executable
        self._report = report
        self._hidden = hidden

    def launch(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> None:
        """Launch the program, and look at the report where the launch is done."""
        self._executable.launch(groups, [*arguments, *self._report.arguments(self._hidden)])
        self._report.launched()

    def boxes(
        self, argument: Argument, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Callable[[Any, int], Any]:
        """As the program without checks describes arrays to TMA."""
        return self._executable.boxes(argument, shape, strides)


class _Report:
    """The report of one device.

    Attributes
    ----------
    sites : dict
        Places by the numbers that stand for them.
    """

    def __init__(self, device: Device) -> None:
        self.sites: dict[int, Site] = {}
        self._device = device
        self._renew()

    def _renew(self) -> None:
        self._array = self._device.from_numpy(np.zeros(REPORT_WORDS, np.int32))
        self._view: ArrayView = self._device.view(self._array)

    def arguments(self, hidden: Sequence[Argument]) -> list[Any]:
        """What a program is given for its arguments of these kinds."""
        view = self._view
        values = {"pointer": view.handle, "offset": view.offset // view.dtype.itemsize}
        return [values[argument.kind] for argument in hidden]

    def launched(self) -> None:
        """Look at the report now if the launch is done, else at the next synchronisation."""
        reports.expect(self._device, self._collect)
        if self._device.capabilities.unified_memory:
            self._device.synchronize()
            reports.raise_reported(self._device)

    def _collect(self) -> CheckError | None:
        words = [int(word) for word in self._device.to_numpy(self._array)]
        if not words[0]:
            return None
        self._renew()
        return _error(self.sites[words[1]], words)


def _report_of(device: Device) -> _Report:
    with _lock:
        report = _reports.get(device.name)
        if report is None:
            report = _reports[device.name] = _Report(device)
        return report


def _error(site: Site, words: Sequence[int]) -> CheckError:
    """The exception that a report means."""
    location, index, shape = site.words(words)
    group = tuple(i // n for i, n in zip(location, site.workgroup, strict=True))
    local = tuple(i % n for i, n in zip(location, site.workgroup, strict=True))
    more = words[0] - 1
    text = f"{site.loc}: in kernel {site.kernel!r}: {_what(site, index, shape)}"
    text += f", by work-item {location} (local {local} of workgroup {group})"
    text += f"; checks failed {more} times more" if more else ""
    line = linecache.getline(site.loc.file, site.loc.line).strip()
    text += f"\n    {line}" if line else ""
    text += f"\n{site.loc.calls}" if site.loc.called is not None else ""
    error = CheckError(text)
    error.kernel, error.location, error.work_item = site.kernel, site.loc, location
    error.array, error.index, error.shape = site.array or None, index or None, shape or None
    return error


def _what(site: Site, index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    if not site.array:
        return f"check failed: {site.message}" if site.message else "check failed"
    return (
        f"index out of bounds: {site.array}[{', '.join(map(str, index))}] of {site.space} array "
        f"{site.array} with shape {shape}"
    )
