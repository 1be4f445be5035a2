"""Parts of the suite, each a process of pytest that ends in time, perhaps under another program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.gpu.marks import BEGUN, ENDED

ROOT = Path(__file__).parents[2]
PLAIN = ("-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:xdist")
BEFORE_ANY = "(before any test)"


@dataclass(frozen=True, slots=True)
class Shard:
    """Tests to run in one process.

    Attributes
    ----------
    tests : tuple of str
        Their ids, as pytest has them.
    prefix : tuple of str
        The program, with its options, that pytest runs under.
    environment : mapping
        Variables to set.
    """

    tests: tuple[str, ...]
    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """What came of a shard.

    Attributes
    ----------
    ended : dict
        How each test that ended did so: "passed", "failed" or "skipped".
    stuck : str
        The test at which the time was over, or the process died; ``""`` for none.
    findings : dict
        What the program that pytest runs under said of each test, line by line.
    seconds_over : bool
        Whether the time was over.
    tail : str
        The last lines of the output, of a process that never came to a test.
    """

    ended: dict[str, str] = field(default_factory=dict)
    stuck: str = ""
    findings: dict[str, list[str]] = field(default_factory=dict)
    seconds_over: bool = False
    tail: str = ""

    @property
    def failed(self) -> list[str]:
        """The tests that failed."""
        return [test for test, how in self.ended.items() if how == "failed"]


def collected(paths: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The ids of the tests below some paths.

    Raises
    ------
    RuntimeError
        If pytest cannot collect them.
    """
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *PLAIN, *paths]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    found = [line for line in done.stdout.splitlines() if "::" in line]
    if done.returncode or not found:
        raise RuntimeError(f"pytest collects nothing:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found


def shards_of(tests: Iterable[str], size: int) -> list[tuple[str, ...]]:
    """Tests in parts of at most `size`, each of one file, which shares what it compiles."""
    by_file: dict[str, list[str]] = {}
    for test in tests:
        by_file.setdefault(test.partition("::")[0], []).append(test)
    return [
        tuple(found[i : i + size]) for found in by_file.values() for i in range(0, len(found), size)
    ]


def run_shard(
    shard: Shard, seconds: float, is_finding: Callable[[str], bool] = lambda line: False
) -> Outcome:
    """Runs a shard for at most so long; `is_finding` tells lines of the output to be kept."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        command = [*shard.prefix, sys.executable, "-m", "pytest", "-q", "-p", "tests.gpu.marks"]
        process = subprocess.Popen(
            [*command, *PLAIN, *shard.tests],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": _path()} | shard.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        over = _waited(process, seconds)
        output.seek(0)
        found = _read(output, is_finding)
    found.seconds_over = over
    return found


def _path() -> str:
    """Where the plugin is found."""
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def _waited(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process had to be ended, with all that it started."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


def _read(lines: Iterable[str], is_finding: Callable[[str], bool]) -> Outcome:
    found, last = Outcome(), BEFORE_ANY
    tail: list[str] = []
    for line in (text.rstrip() for text in lines):
        tail = [*tail[-19:], line]
        if line.startswith(BEGUN):
            last = found.stuck = line.removeprefix(BEGUN)
        elif line.startswith(ENDED):
            outcome, _, test = line.removeprefix(ENDED).partition(" ")
            found.ended[test] = (
                "failed" if "failed" in (outcome, found.ended.get(test)) else outcome
            )
            found.stuck = ""
        elif is_finding(line):
            found.findings.setdefault(last, []).append(line)
    if not found.ended:
        found.tail = "\n".join(tail)
    return found
