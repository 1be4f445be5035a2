"""Whatever waits, under schedules that hold workgroups back or let them run ahead."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
import pytest

import portable
from portable.backend import Capabilities
from portable.primitives.scans import scanning
from portable.primitives.tuning import Lines
from portable.sim import checks
from tests.profiles.operations import CASES, close, few_units, random

SCHEDULES: Final = ("held", "newest", "round_robin")
WAITING: Final = {
    "h200": (
        "bands-3-float64-31",
        "running_totals-float32-(9001,)-0",
        "running_totals-float32-(600, 66)-0",
        "sorts-int8-(9000,)",
        "reductions-(7001,)-None",
        "reductions-(300, 40)-0",
    ),
    "nvidia-opencl": ("bands-6-float32-31",),
    "intel-cpu": ("bands-3-float32-31",),
}
"""Rings, look-back over tiles, strips and digits, last workgroups that merge, packs."""


def _in_short_blocks(lines_for: Any, capabilities: Capabilities) -> Lines:
    """As the table says, in blocks of fewer elements."""
    found: Lines = lines_for(capabilities)
    return found._replace(shortest=64)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in WAITING.items() for c in cases])
def test_as_planned_there(name: str, case: str, schedule: str) -> None:
    device = few_units(name)
    with portable.use(device), checks(resident=3, schedule=schedule):
        CASES[case](device)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_blocks_of_a_long_row(monkeypatch: pytest.MonkeyPatch, schedule: str) -> None:
    """As processors scan them, in blocks of fewer elements than theirs."""
    short = partial(_in_short_blocks, scanning.lines_for)
    monkeypatch.setattr(scanning, "lines_for", short)
    device, a = few_units("intel-cpu"), random((1500,))
    with portable.use(device), checks(schedule=schedule):
        xp = portable.xp(device)
        close(xp.cumulative_sum(xp.asarray(a)), np.cumsum(a.astype(float)), "float32")
