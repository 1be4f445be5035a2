"""A plugin of pytest that tells its reader which test runs, and how each ended.

Lines go to what was the standard output when the process began, so that what a sanitizer writes
there stands between those of the test that it is about. ``TESTS_FAULT`` names a fault of
`tests.faults.table` to be planted first, ``TESTS_ALLOCATOR=plain`` has CuPy ask the driver for
each array, so that a sanitizer sees where one ends.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import pytest

BEGUN, ENDED = "@begun ", "@ended "

_output = os.dup(sys.__stdout__.fileno()) if sys.__stdout__ is not None else 1


def _tell(line: str) -> None:
    os.write(_output, f"\n{line}\n".encode())


def pytest_configure() -> None:
    if os.environ.get("TESTS_ALLOCATOR") == "plain":
        with suppress(ImportError):
            import cupy

            cupy.cuda.set_allocator(None)
    if name := os.environ.get("TESTS_FAULT"):
        from tests.faults.planting import plant
        from tests.faults.table import FAULTS

        (change,) = (fault.change for fault in FAULTS if fault.name == name)
        plant(change)


def pytest_runtest_logstart(nodeid: str) -> None:
    _tell(BEGUN + nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    over = report.when == "call" or report.outcome != "passed"
    if over:
        _tell(f"{ENDED}{report.outcome} {report.nodeid}")
