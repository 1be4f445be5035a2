"""What the scripts of this folder meet: tests that pass, fail, hang, kill and are found at fault.

Not collected by name; `test_scripts` runs it under a program that plays the sanitizer.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE


def say(line: str) -> None:
    """What a sanitizer would write beside pytest."""
    os.write(int(os.environ["FAKE_SANITIZER"]), f"========= {line}\n".encode())


def test_passes() -> None:
    pass


def test_fails() -> None:
    pytest.fail("as it should")


def test_skips() -> None:
    pytest.skip("as it should")


def test_reads_outside() -> None:
    say("Invalid __global__ read of size 4 bytes")
    say("    at saxpy+0x40")
    say("ERROR SUMMARY: 1 error")


def test_hangs() -> None:
    if "SAMPLE_HANGS" in os.environ:
        Path(os.environ["SAMPLE_HANGS"]).touch()
        time.sleep(2 * PATIENCE)


def test_kills() -> None:
    if "SAMPLE_KILLS" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)


def test_is_last() -> None:
    pass
