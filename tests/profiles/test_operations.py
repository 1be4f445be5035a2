"""Every family of operations as every device would plan it, under all checks of the simulator."""

from __future__ import annotations

import os
from typing import Final

import pytest

import portable
from portable import profiles
from portable.sim import checks
from tests.profiles.operations import CASES, LONG, few_units

USUAL: Final = ("h200", "nvidia-opencl", "arc", "intel-cpu")
ALL: Final = os.environ.get("PORTABLE_TEST_PROFILES") == "all"
"""Whether every profile and the cases that take long are run too: some twenty minutes."""


@pytest.mark.parametrize("case", [name for name in CASES if ALL or name not in LONG])
@pytest.mark.parametrize("name", profiles.names() if ALL else USUAL)
def test_as_planned_there(name: str, case: str) -> None:
    device = few_units(name)
    with portable.use(device), checks(resident=3):
        CASES[case](device)
