"""Random programs of arrays give what NumPy gives; ``PORTABLE_FUZZ`` asks for more of them."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from portable.backend import Device
from tests.support.random_arrays import LEFT_OUT
from tests.support.random_checks import check
from tests.support.random_coverage import covered_functions, missing_functions

FUZZ = int(os.environ.get("PORTABLE_FUZZ", "0"))


def test_random_programs_in_the_simulator(simulated: Device, tmp_path: Path) -> None:
    for seed in range(FUZZ or 30):
        check("arrays", simulated, Random(seed), tmp_path)


def test_random_programs(ours: Device, tmp_path: Path) -> None:
    for seed in range(FUZZ or 1):
        check("arrays", ours, Random(1000 + seed), tmp_path)


def test_every_function_is_in_random_programs_or_left_out_for_a_reason() -> None:
    assert not missing_functions(), "cover them, or say in LEFT_OUT why not"
    assert not covered_functions() & LEFT_OUT.keys(), "they are covered now"
