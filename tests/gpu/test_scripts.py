"""The scripts for GPUs, tried without one: a program that plays the sanitizer, and a sample."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.gpu import perturb, sanitize, shards
from tests.gpu.sanitize import Run, Tally, checked, is_finding
from tests.gpu.shards import shards_of
from tests.support.patience import PATIENCE

SAMPLE = "tests/gpu/sample.py"
NAME = SAMPLE + "::test_"
FAKE = f"""#!{sys.executable}
import os, subprocess, sys
at = sys.argv.index({sys.executable!r})
assert sys.argv[1] == "--tool"
out = os.dup(1)
os.set_inheritable(out, True)
print("========= COMPUTE-SANITIZER", flush=True)
env = os.environ | {{"FAKE_SANITIZER": str(out)}}
done = subprocess.run(sys.argv[at:], env=env, close_fds=False)
sys.exit(done.returncode)
"""


@pytest.fixture
def sanitizer(tmp_path: Path) -> str:
    program = tmp_path / "fake-sanitizer"
    program.write_text(FAKE)
    program.chmod(0o755)
    return str(program)


def test_lines_of_a_sanitizer() -> None:
    lines = """
========= COMPUTE-SANITIZER
========= Invalid __shared__ write of size 8 bytes
=========     at ring_packs+0x1270
=========     Saved host backtrace up to driver entry point
=========
========= Error: Race reported between Read access at x and Write access at y [8 hazards]
========= ERROR SUMMARY: 2 errors
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
tests/linalg/test_band.py ...
""".splitlines()
    assert [line[10:17] for line in lines if is_finding(line)] == ["Invalid", "Error: "]


def test_shards_are_of_one_file() -> None:
    tests = ["a.py::x", "b.py::x", "a.py::y", "a.py::z"]
    assert shards_of(tests, 2) == [("a.py::x", "a.py::y"), ("a.py::z",), ("b.py::x",)]


def test_findings_failures_and_deaths_are_told_apart(
    tmp_path: Path, sanitizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands behind the test that killed its process runs in another one."""
    monkeypatch.setenv("SAMPLE_KILLS", "1")
    state = tmp_path / "state.json"
    options = ["--sanitizer", sanitizer, "--devices", "simulator", "--tool", "memcheck"]
    options += ["--state", str(state), "--every-test"]
    found = CliRunner().invoke(sanitize.main, [SAMPLE, *options])
    tally = Tally(**json.loads(state.read_text())["memcheck"])
    assert tally.stuck == [NAME + "kills"]
    assert tally.findings == {
        NAME + "reads_outside": ["========= Invalid __global__ read of size 4 bytes"]
    }
    assert tally.ended == {
        NAME + "passes": "passed",
        NAME + "fails": "failed",
        NAME + "skips": "skipped",
        NAME + "reads_outside": "passed",
        NAME + "hangs": "passed",
        NAME + "is_last": "passed",
    }
    assert found.exit_code == 1
    output = found.output.replace("\n", "")
    assert "memcheck: 6 of 7 tests ended, 1 failed, 1 did not end, 0 left; 1 finding" in output
    assert f"failed: {NAME}fails" in output
    assert f"1 in {NAME}reads_outside" in output


def test_a_shard_ends_in_time_and_the_next_call_goes_on(
    tmp_path: Path, sanitizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is over as soon as the test is there that hangs."""
    hangs, waited = tmp_path / "hangs", shards._waited

    def until_it_hangs(process: subprocess.Popen[bytes], seconds: float) -> bool:
        while process.poll() is None and not hangs.exists():
            time.sleep(0.01)
        over = waited(process, 0.01 if hangs.exists() else seconds)
        hangs.unlink(missing_ok=True)
        return over

    monkeypatch.setattr(shards, "_waited", until_it_hangs)
    tests = [NAME + word for word in ("passes", "hangs", "is_last")]
    end = time.monotonic() + PATIENCE
    given = {"SAMPLE_HANGS": str(hangs)}
    how = Run(sanitizer, given, end, PATIENCE, 40, 1, tmp_path / "state.json")
    (tally,) = checked(how, tests[:2], ["racecheck"]).values()
    assert tally.stuck == [NAME + "hangs"]
    (tally,) = checked(how, tests, ["racecheck"]).values()
    assert tally.stuck == [NAME + "hangs"]
    assert not tally.left(tests)
    assert set(tally.ended) == {tests[0], tests[2]}


def test_counts_of_perturbed_timings() -> None:
    """Of the sample's tests, one of which must fail, with two seeds."""

    def work(environment: dict[str, str], seconds: float) -> perturb.Result:
        shard = tuple(NAME + word for word in ("passes", "fails", "skips"))
        return perturb.tests(shard, environment, seconds)

    jobs = [perturb.Job("cpu: tests", seed, work, {}) for seed in (1, 2)]
    late = perturb.Job("cpu: bands", 3, work, {})
    (count,) = perturb.run(jobs, time.monotonic() + PATIENCE, 2).values()
    assert (count.right, count.wrong, count.seeds, count.unfinished) == (2, 2, {1, 2}, 0)
    assert sorted(count.told) == [f"seed {seed}: {NAME}fails" for seed in (1, 2)]
    (count,) = perturb.run([late], time.monotonic(), 1).values()
    assert (count.right, count.wrong, count.unfinished) == (0, 0, 1)


def test_a_missing_sanitizer_is_told() -> None:
    found = CliRunner().invoke(sanitize.main, ["--sanitizer", "no-such-program"])
    assert "--sanitizer says where it is" in found.output
