"""`portable bench` as it is typed."""

from __future__ import annotations

import threading
from importlib.resources import files
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from portable import registry
from portable.backend import Device
from portable.dtypes import float32
from portable_bench import m4ri, run
from portable_bench.cli import bench
from portable_bench.harness import Harness, Pace
from portable_bench.operation import Case, Operation
from portable_bench.operations import OPERATIONS
from portable_bench.results import load
from portable_bench.run import Heartbeat

QUICK = ["--seconds", "0.01", "--no-roof"]

_BESIDE_PYTORCH = {"conv_layers", "stencil_gradient"}
"""Operations that PyTorch alone has, too."""


def typed(*words: str) -> Result:
    return CliRunner().invoke(bench, list(words))


@pytest.mark.needs_compiler
def test_a_quick_run(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    words = ("--device", device.name, "--size", "48", "--json", str(path), *QUICK)
    done = typed("gemm", *words)
    assert done.exit_code == 0, done.output
    assert device.name in done.output
    found = load(path)
    assert found.environment["devices"][device.name]["name"] == device.capabilities.name
    assert found.environment["versions"]["numpy"]
    assert len(found.cells) == 3
    for cell in found.cells:
        assert cell.ours[0].verified
        assert cell.ours[0].timed


@pytest.mark.needs_compiler
def test_a_ladder(device: Device, tmp_path: Path) -> None:
    words = ("--device", device.name, "--dtype", "f32", "--size", "24x40x33", *QUICK)
    done = typed("gemm", "--ladder", *words, "--plot", str(tmp_path / "ladder.svg"))
    assert done.exit_code == 0, done.output
    assert "naive" in (tmp_path / "ladder.svg").read_text(encoding="utf-8")
    for rung in ("naive", "tiled", "register", "pipelined", "matrix"):
        (line,) = [x for x in done.output.splitlines() if x.startswith(rung)]
        assert line.rstrip().endswith("yes"), line


@pytest.mark.needs_compiler
def test_launches(device: Device) -> None:
    done = typed("launch", "--device", device.name, *QUICK)
    assert done.exit_code == 0, done.output
    # A remark below the table may name the device too, such as that its samples disagree.
    lines = [x for x in done.output.splitlines() if x.startswith(f"{device.name} ")]
    assert len(lines) == 6, done.output
    assert all(" us " in line or " ns " in line for line in lines), done.output


@pytest.mark.needs_processor
def test_everything_that_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sizes, a report, a comparison with the run itself, and a picture of a ladder."""
    seconds = count()
    monkeypatch.setattr(run, "now", lambda: f"2026-01-02T03:{next(seconds):02}:00+00:00")
    results, html = tmp_path / "found.json", tmp_path / "found.html"
    words = ("band", "--device", "cpu", "--dtype", "f32", "--size", "32..128x4", *QUICK)
    done = typed(*words, "--json", str(results), "--html", str(html))
    assert done.exit_code == 0, done.output
    assert "scaling" in done.output
    assert "N^" in done.output
    assert "band" in html.read_text(encoding="utf-8")
    done = typed(*words, "--baseline", str(results))
    assert done.exit_code == 0, done.output
    assert "changes" in done.output
    again = tmp_path / "again.html"
    done = typed("report", str(results), str(again))
    assert done.exit_code == 0, done.output
    assert again.read_text(encoding="utf-8") == html.read_text(encoding="utf-8")


def test_the_simulator_can_be_asked_for() -> None:
    done = typed("gemm", "--device", "simulator", "--dtype", "f32", "--size", "9", *QUICK)
    assert done.exit_code == 0, done.output
    assert "simulator" in done.output


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda op: op.name)
def test_operations_state_what_they_must(operation: Operation) -> None:
    assert operation.dtypes
    assert OPERATIONS[operation.name] is operation


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gem"], "did you mean gemm?"),
        (["gemm", "--dtype", "f33"], "did you mean f32?"),
        (["gemm", "--device", "nonsuch"], "nonsuch"),
        (["gemm", "--size", "2x3"], "expected N or MxNxK"),
        (["gemm", "--size", "big"], "256..4096"),
        (["launch", "--ladder"], "only gemm has several"),
        (["launch", "--dtype", "f16"], "nothing to measure"),
        (["sort", "--device", "simulator"], "have a library of their own"),
        (["gemm", "--device", "simulator", "--json", "/nonsuch/x.json"], "cannot be written"),
        (["gemm", "--device", "simulator", "--html", "/nonsuch/x.html"], "cannot be written"),
        (["gemm", "--device", "simulator", "--plot", "x.png"], "add --ladder"),
        (["gemm", "--device", "simulator", "--ladder", "--plot", "x.bmp"], "expected .png"),
        (["gemm", "--device", "simulator", "--baseline", "/nonsuch.json"], "does not exist"),
        (["gemm", "--baseline", __file__], "cannot be read as results"),
        (["report", "/nonsuch.json", "x.html"], "does not exist"),
    ],
)
def test_bad_words(words: list[str], expected: str) -> None:
    done = typed(*words)
    assert done.exit_code == 2
    assert expected in done.output


def test_a_machine_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "devices", lambda: (registry.device("simulator"),))
    assert "no device but the simulator was found" in typed().output


@pytest.mark.needs_processor
@pytest.mark.parametrize(
    "name", [name for name, op in OPERATIONS.items() if "simulator" in op.sizes]
)
def test_every_operation_on_the_processor(name: str) -> None:
    """Verified, timed, and beside at least one library where there is one."""
    operation, device = OPERATIONS[name], registry.device("cpu")
    if operation.missing(device):
        device = registry.device("opencl")
    size = operation.sizes_for("simulator", "quick")[0]
    harness = Harness(Pace(cell=0, least_rounds=1, rest=0))
    cell = harness.measure(operation, Case(device, float32, size))
    assert not cell.failure
    without = (name.startswith("gf2") and not m4ri.available()) or (
        name in _BESIDE_PYTORCH and find_spec("torch") is None
    )
    assert cell.peers or without
    for outcome in cell.outcomes:
        assert outcome.timed, outcome
        assert outcome.verified, outcome


def test_adding_an_operation_is_a_short_file() -> None:
    folder = Path(str(files("portable_bench.operations")))
    lines = {path.name: len(path.read_text("utf-8").splitlines()) for path in folder.glob("*.py")}
    assert len(lines) >= len(OPERATIONS) - 3
    del lines["__init__.py"]  # the list of all, a line or two each
    assert max(lines.values()) <= 50, lines


def test_help_lists_what_there_is() -> None:
    done = typed("--help")
    listed = " ".join(done.output.split())
    assert "gemm, gemm_batch" in listed
    assert "f16, f32, f64" in listed


@pytest.mark.needs_processor
def test_operations_are_named_as_devices_are() -> None:
    done = typed("launch,gem", "--device", "cpu")
    assert done.exit_code == 2
    assert "did you mean gemm?" in done.output


@pytest.mark.needs_processor
@pytest.mark.parametrize("strict", [False, True])
def test_cells_left_out_are_told_last(strict: bool) -> None:
    words = ["gemm", "--device", "cpu", "--dtype", "f32", "--size", "16,32", "--budget", "0"]
    done = typed(*words, "--no-roof", *(["--strict"] if strict else []))
    assert done.exit_code == (3 if strict else 0), done.output
    assert done.output.rstrip().endswith("2 of 2 cells were left out: the 0 s were over")


def test_a_long_run_tells_of_itself() -> None:
    lines: list[str] = []
    enough = threading.Event()

    def tell(line: str) -> None:
        lines.append(line)
        if len(lines) == 2:
            enough.set()

    with Heartbeat(lambda: "3 of 7 cells", tell, seconds=0.01):
        assert enough.wait(30)
    told = len(lines)
    assert set(lines) == {"3 of 7 cells"}
    with Heartbeat(lambda: "never", None, seconds=0.0):
        pass
    assert len(lines) == told
