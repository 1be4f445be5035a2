"""`portable bench` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from portable.backend import Device
from portable_bench.cli import bench
from portable_bench.operation import Operation
from portable_bench.operations import OPERATIONS

QUICK = ["--seconds", "0.01"]


def typed(*words: str) -> Result:
    return CliRunner().invoke(bench, list(words))


@pytest.mark.needs_compiler
def test_a_quick_run(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    done = typed("gemm", "--device", device.name, "--size", "48", "--json", str(path), *QUICK)
    assert done.exit_code == 0, done.output
    assert device.name in done.output
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["environment"]["devices"][device.name]["name"] == device.capabilities.name
    assert found["environment"]["versions"]["numpy"]
    for cell in found["cells"]:
        ours = cell["outcomes"][0]
        assert not ours["failure"]
        assert ours["error"] <= 1
        assert ours["samples"]


@pytest.mark.needs_compiler
def test_a_ladder(device: Device) -> None:
    done = typed(
        "gemm", "--ladder", "--device", device.name, "--dtype", "f32", "--size", "24x40x33", *QUICK
    )
    assert done.exit_code == 0, done.output
    for rung in ("naive", "tiled", "register", "pipelined", "matrix"):
        (line,) = [x for x in done.output.splitlines() if x.startswith(rung)]
        assert line.rstrip().endswith("yes"), line


@pytest.mark.needs_compiler
def test_launches(device: Device) -> None:
    done = typed("launch", "--device", device.name, *QUICK)
    assert done.exit_code == 0, done.output
    lines = [x for x in done.output.splitlines() if device.name in x]
    assert len(lines) == 6
    assert not [line for line in lines if " - " in line]


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
        (["gemm", "--device", "cpu", "--json", "/nonsuch/x.json"], "cannot be written"),
    ],
)
def test_bad_words(words: list[str], expected: str) -> None:
    done = typed(*words)
    assert done.exit_code == 2
    assert expected in done.output
