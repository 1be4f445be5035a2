"""Random kernels agree between the simulator, every device, and Python itself.

``PORTABLE_FUZZ`` sets the number of kernels per device and family, then new ones in every run. Long
runs are the business of ``python -m tests.support.random_sweep``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import portable as pt
from portable.backend import Device
from tests.support import random_sweep
from tests.support.patience import PATIENCE
from tests.support.random_checks import FAMILIES, check
from tests.support.random_coverage import LEFT_OUT, covered_statements, covered_words, missing_words

FUZZ = int(os.environ.get("PORTABLE_FUZZ", "0"))
_EXAMPLES = {
    "scalars": 8, "exchange": 5, "workgroups": 3, "control": 3, "moves": 4, "functions": 2,
    "names": 2, "adjoints": 3, "shuffles": 1,
}  # fmt: skip


def _profile(examples: int) -> settings:
    return settings(
        max_examples=FUZZ or examples,
        derandomize=not FUZZ,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.needs_float64
@pytest.mark.parametrize("family", FAMILIES)
def test_random_kernels(device: Device, tmp_path: Path, family: str) -> None:
    @_profile(_EXAMPLES[family])
    @given(random=st.randoms(use_true_random=False))
    def checked(random: Random) -> None:
        check(family, device, random, tmp_path)

    checked()


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "shuffles"])
def test_many_random_kernels_in_the_simulator(tmp_path: Path, family: str) -> None:
    @_profile(3 if family == "names" else 12)
    @given(random=st.randoms(use_true_random=False))
    def checked(random: Random) -> None:
        check(family, pt.device("simulator"), random, tmp_path)

    checked()


def test_every_word_is_in_random_kernels_or_left_out_for_a_reason() -> None:
    covered = covered_words()
    assert len(covered) > 140
    assert not missing_words(covered), "cover them, or say in LEFT_OUT why not"
    assert not covered & LEFT_OUT.keys(), "they are covered now: take them out of LEFT_OUT"


def test_every_statement_is_in_random_kernels() -> None:
    wanted = {
        "AnnAssign", "Assign", "AugAssign", "BoolOp", "Break", "Call", "ClassDef", "Compare",
        "Continue", "For", "FunctionDef", "If", "IfExp", "Return", "Tuple", "UnaryOp", "While",
    }  # fmt: skip
    assert wanted <= covered_statements()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_silent_processes_are_ended_by_what_they_worked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(random_sweep, "_PATIENCE", 0.4)
    said = tmp_path / "said"
    said.touch()
    for body, limit in (("while True: pass", 60.0), ("import time; time.sleep(60)", 1.0)):
        # Without what a site begins with, which can work for longer than the patience.
        process = subprocess.Popen([sys.executable, "-I", "-S", "-c", body])
        until = time.monotonic() + limit
        random_sweep._watched(random_sweep.Sweep(tmp_path), process, said, until)
        asleep = time.monotonic() >= until
        process.kill()
        process.wait()
        assert asleep == ("sleep" in body)


@pytest.mark.parametrize(("family", "seed"), [("shuffles", 31180042), ("shuffles", 31180061)])
def test_kernels_are_compiled_that_llvm_did_not_end_with(
    family: str, seed: int, tmp_path: Path
) -> None:
    """Of one it interleaved the rounds without end, of the other it aborted on vectors it made."""
    pytest.importorskip("llvmlite")
    command = f"--device cpu:native --families {family} --seed {seed} --count 1 --out {tmp_path}"
    sweep = [sys.executable, "-m", "tests.support.random_sweep", *command.split()]
    done = subprocess.run(sweep, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout
