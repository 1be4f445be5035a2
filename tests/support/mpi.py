"""Starting programs as several processes of MPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
"""Open MPI starts nothing for the administrator, nor more processes than cores, unless told to."""


def run_processes(count: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, so many times; the test is skipped where there is no MPI."""
    beside = Path(sys.executable).with_name("mpiexec")
    starter = str(beside) if beside.exists() else shutil.which("mpiexec")
    if starter is None or find_spec("mpi4py") is None:
        pytest.skip("mpi4py or mpiexec is missing: pip install 'portable-arrays[mpi]'")
    command = [starter, "-n", str(count), sys.executable, *map(str, arguments)]
    environment = {**_OPEN_MPI, **os.environ}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment
    )
