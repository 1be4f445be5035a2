"""Drivers of OpenCL before 3.0 get programs that they take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import portable
from portable.backend import profiles

_ROUNDED = "-cl-fp32-correctly-rounded-divide-sqrt"


@pytest.mark.parametrize(
    ("version", "standard"),
    [
        ("OpenCL 1.2 (Jul 20 2026)", "-cl-std=CL1.2"),
        ("OpenCL 2.1 NEO", "-cl-std=CL2.0"),
        ("OpenCL 3.0 CUDA", "-cl-std=CL3.0"),
    ],
)
def test_the_standard_is_one_that_the_driver_has(version: str, standard: str) -> None:
    runtime = pytest.importorskip("portable_backends.opencl.runtime")
    apple = profiles.load("apple-opencl").capabilities
    device = SimpleNamespace(version=version)
    assert runtime.options_for(device, apple, ()) == [standard]
    rounded = profiles.load("pocl").capabilities
    assert runtime.options_for(device, rounded, (_ROUNDED,)).count(_ROUNDED) == 1


def test_an_opencl_1_2_device_runs_every_part(tmp_path: Path) -> None:
    there = {device.name for device in portable.devices()}
    told = next((name for name in ("opencl:pocl", "opencl:intel") if name in there), None)
    if told is None:
        pytest.skip("no OpenCL runtime was found that can be told to be older")
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.older_opencl", told],
        env={**os.environ, "PORTABLE_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed, 0 failed" in done.stdout
