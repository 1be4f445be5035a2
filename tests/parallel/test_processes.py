"""Members that are processes do what members that are threads do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("processes.py")


def mpiexec() -> str:
    """The launcher beside this Python, or on the path."""
    own = Path(sys.executable).with_name("mpiexec")
    found = str(own) if own.exists() else shutil.which("mpiexec")
    if found is None or find_spec("mpi4py") is None:
        pytest.skip("mpi4py and mpiexec are not installed")
    return found


@pytest.mark.parametrize("size", [2, 3])
def test_processes(size: int) -> None:
    done = subprocess.run(
        [mpiexec(), "-n", str(size), sys.executable, str(SCRIPT)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
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
