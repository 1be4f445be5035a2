"""Runs in which workgroups wait for each other, on the processor, with a few perturbed timings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import portable

WAITING = ("band_in_vectors", "totals_of_blocks", "reductions_at_once")
BARRIERS = ("totals_of_strips",)
"""Those that wait between barriers, which PoCL 3.0 cannot."""


@pytest.mark.needs_processor
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_waiting_runs_with_delays(seed: int) -> None:
    device = portable.device("cpu")
    names = WAITING if device.capabilities.vendor == "pocl" else (*WAITING, *BARRIERS)
    program = f"from tests.faults.runs import RUNS\nfor name in {names}: RUNS[name]('cpu')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PORTABLE_PERTURB": str(seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
