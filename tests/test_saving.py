"""Networks, results and tables on a full disk, and in a process that is killed meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

_SAVE = """
import os, resource, signal, sys
from pathlib import Path
from portable.dtypes import float32
from portable.nn import MLP
from portable.tune.table import record
from portable_bench.results import Cell, Results, write

def network(path, n):
    MLP([n, n], device="simulator").save(path)

def results(path, n):
    cells = [Cell("gemm", "cpu", "f32", (i + 1,), "", None) for i in range(n)]
    write(path, Results({}, cells))

def table(path, n):
    record("gemm", float32, f"device {n}", [{"BM": i} for i in range(n)], path)

def save_where_little_room_is_left(save, path, killed):
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if killed:  # in the middle of writing
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        save(path, 300)
    except OSError as error:
        os._exit(0 if error.filename == str(path) else 1)
    os._exit(2)

for save in (network, results, table):
    folder = Path(sys.argv[1]) / save.__name__
    folder.mkdir()
    path = folder / "kept"
    save(path, 4)
    before = path.read_bytes()
    assert len(before) < 2000
    for killed in (False, True):
        process = os.fork()
        if process == 0:
            save_where_little_room_is_left(save, path, killed)
        _, status = os.waitpid(process, 0)
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)
        assert ended == (signal.SIGXFSZ if killed else 0), (save, killed, ended)
        assert path.read_bytes() == before, (save, killed)
        left = [x.name for x in folder.iterdir() if x.name not in ("kept", ".kept.lock")]
        assert killed or not left, left
    save(path, 5)
    assert path.read_bytes() != before
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files are limited as POSIX has it")
def test_what_was_saved_stays(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _SAVE, str(tmp_path)], check=True, timeout=PATIENCE)
