"""Every family of operations as every device would plan it, under all checks of the simulator."""

from __future__ import annotations

import os
from typing import Final
from zlib import crc32

import pytest

import portable
from portable.backend import profiles
from portable.sim import checks
from tests.profiles.operations import CASES, LONG, few_units
from tests.support.devices import day

IN_TURN: Final = ("h200", "arc", "neoverse", "nvidia-opencl", "intel-cpu", "apple-m1")
"""Profiles that take turns: a case runs on one of them, on another one each day."""

ALL: Final = os.environ.get("PORTABLE_TEST_PROFILES") == "all"
"""Whether every case runs on every profile, those that take long too: some twenty minutes."""


def profiles_for(case: str) -> list[str]:
    """Those that a case runs on."""
    if ALL:
        return list(profiles.names())
    return [IN_TURN[(crc32(case.encode()) + day()) % len(IN_TURN)]]


@pytest.mark.parametrize(
    ("name", "case"),
    [(name, case) for case in CASES if ALL or case not in LONG for name in profiles_for(case)],
)
def test_as_planned_there(name: str, case: str) -> None:
    device = few_units(name)
    with portable.use(device), checks(resident=3):
        CASES[case](device)
