"""Runs that are interrupted, told to end or killed; what is written and cannot be printed."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import click
import pytest

from portable_bench import cli
from portable_bench.cli import Endings
from portable_bench.results import Results, load
from tests.bench.fakes import ENVIRONMENT
from tests.support.patience import PATIENCE

SIGNALS = {"SIGINT": 130, "SIGTERM": 143, "SIGKILL": -9}


def started(folder: Path) -> subprocess.Popen[bytes]:
    """Two small products in the simulator, and one that takes minutes; a session of their own."""
    words = "bench gemm --device simulator --dtype f32 --size 4,5,1000 --seconds 0 --no-roof"
    code = "import sys; from portable.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *words.split(), "--json", str(folder / "run.json")]
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        return subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)


def cells_in(path: Path) -> int:
    try:
        return len(json.loads(path.read_text(encoding="utf-8"))["cells"])
    except FileNotFoundError:
        return 0


@pytest.mark.usefixtures("hears_ctrl_c")
def test_what_is_finished_is_kept_however_a_run_ends(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in SIGNALS}
    for folder in folders.values():
        folder.mkdir()
    runs = {name: started(folder) for name, folder in folders.items()}
    try:
        for name, run in runs.items():
            until = time.monotonic() + PATIENCE
            while cells_in(folders[name] / "run.json") < 2 and time.monotonic() < until:
                assert run.poll() is None, (folders[name] / "err").read_text("utf-8")
                time.sleep(0.1)
            run.send_signal(getattr(signal, name))
        for name, run in runs.items():
            status = run.wait(PATIENCE)
            out, err = ((folders[name] / file).read_text("utf-8") for file in ("out", "err"))
            assert status == SIGNALS[name], err
            assert [cell.size[0] for cell in load(folders[name] / "run.json").cells] == [4, 5]
            if name != "SIGKILL":
                assert "interrupted after 2 of 3 cells" in err
                assert "simulator" in out
    finally:
        for run in runs.values():
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()


def test_signals_raise_within_the_block_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Endings() as endings:
        assert endings.status == 0
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert endings.status == 143
    assert signal.getsignal(signal.SIGTERM) is before


# -- what cannot be put out -----------------------------------------------------------------------

RESULTS = Results(ENVIRONMENT, [])


def fails(number: int) -> None:
    raise OSError(number, "no room")


def test_files_are_written_before_anything_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be written keeps no other from being; a full disk under stdout is said."""
    done: list[str] = []
    outputs = [
        (Path("a"), lambda: fails(errno.ENOSPC)),
        (Path("b"), lambda: done.append("b")),
        (None, lambda: done.append("none")),
    ]
    monkeypatch.setattr(cli, "_show", lambda made: fails(errno.ENOSPC))
    with pytest.raises(click.ClickException) as caught:
        cli._put_out(outputs, [], RESULTS)
    assert done == ["b"]
    assert caught.value.message == (
        "a cannot be written: no room; the tables cannot be printed: no room"
    )


def test_a_closed_pipe_is_left_to_click(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_show", lambda made: fails(errno.EPIPE))
    with pytest.raises(BrokenPipeError):
        cli._put_out([], [], RESULTS)
