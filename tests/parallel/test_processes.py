"""Members that are processes do what members that are threads do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.mpi import run_processes

SCRIPT = Path(__file__).with_name("processes.py")


@pytest.mark.parametrize("size", [2, 3])
def test_processes(size: int) -> None:
    done = run_processes(size, SCRIPT)
    assert done.returncode == 0, done.stderr
    ranks = list(range(size))
    for rank, found in enumerate(json.loads(done.stdout)):
        received = (rank - 1) % size + 1
        gathered = [float(r + 1) for r in ranks]
        assert found[0] == sum(gathered)
        assert found[1 : 1 + size] == gathered
        assert found[1 + size] == received
        assert found[2 + size : 2 + 2 * size] == [9.0 * (r + 1) for r in ranks]
        assert found[-1] == 1.0


def test_a_process_that_fails_ends_the_others() -> None:
    done = run_processes(2, SCRIPT, "fail")
    assert done.returncode != 0
    message = "process 1 of 2 failed, which ends them all: RuntimeError: the disk is gone"
    assert done.stderr.count(message) == 1


def test_ctrl_c_between_runs_ends_all() -> None:
    """Where no run is under way that could tell the others, who wait in one."""
    done = run_processes(2, SCRIPT, "interrupt")
    assert done.returncode != 0
    assert "process 1 of 2 failed, which ends them all: KeyboardInterrupt" in done.stderr
