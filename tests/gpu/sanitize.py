"""The suite under compute-sanitizer, in shards that end in time, and a summary of what it found.

    python -m tests.gpu.sanitize --seconds 540 --jobs 8 tests/linalg tests/nn tests/lang

Each tool (memcheck, racecheck, synccheck, initcheck) runs over all tests named, a shard at a time,
`--jobs` of them side by side. What is done is written to the state file after each shard, and the
next call goes on where this one stopped; a test that took too long is left out then. The summary
names the tests that failed and those about which a tool said something.

racecheck knows barriers, also those of some sub-groups, but no flags: that one work-item releases
in local memory what another acquires is a race to it, in four lines of CUDA as in `ring_packs`. Of
`panel_packs` it names the first number of a panel's reflectors, which work-item 0 writes before a
barrier of the workgroup, to which it comes last, and others read after it. The simulator, which
knows both, finds no race in either.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path

import click

from tests.gpu.shards import Outcome, Shard, collected, run_shard, shards_of

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
NO_FINDINGS = (
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "LEAK SUMMARY",
    "Target application returned an error",
    "Saved host backtrace",
)
SHORTEST = 20.0
"""Seconds that must be left for another shard to begin."""


def is_finding(line: str) -> bool:
    """Whether a line of the sanitizer's output is the first of something that it found.

    What belongs to it follows, indented.
    """
    text = line.removeprefix("========= ")
    return text not in (line, "") and text[0] != " " and not text.startswith(NO_FINDINGS)


@dataclass(slots=True)
class Tally:
    """What is known of one tool.

    Attributes
    ----------
    ended : dict
        How each test ended.
    stuck : list of str
        Tests at which the time of a shard was over, or the process died.
    findings : dict
        What the tool said of each test.
    """

    ended: dict[str, str] = field(default_factory=dict)
    stuck: list[str] = field(default_factory=list)
    findings: dict[str, list[str]] = field(default_factory=dict)

    def left(self, tests: Sequence[str]) -> list[str]:
        """The tests that have not run."""
        done = {*self.ended, *self.stuck}
        return [test for test in tests if test not in done]

    def add(self, outcome: Outcome) -> None:
        """Adds what came of a shard."""
        self.ended |= outcome.ended
        self.stuck += [outcome.stuck] if outcome.stuck else []
        for test, lines in outcome.findings.items():
            self.findings.setdefault(test, []).extend(lines)


@dataclass(frozen=True, slots=True)
class Run:
    """How this call goes about it.

    Attributes
    ----------
    sanitizer : str
        The program.
    environment : dict
        Variables for the tests.
    end, shard_seconds : float
        When to stop, as of `time.monotonic`, and the most time of a shard.
    size, jobs : int
        Tests of a shard, and shards side by side.
    state : Path
        Where what is done is kept.
    """

    sanitizer: str
    environment: dict[str, str]
    end: float
    shard_seconds: float
    size: int
    jobs: int
    state: Path


def checked(run: Run, tests: Sequence[str], tools: Sequence[str]) -> dict[str, Tally]:
    """Runs what is left to run, as far as the time goes."""
    tallies = _known(run.state, tools)
    lock = threading.Lock()

    def one(tool: str, shard: tuple[str, ...]) -> None:
        while shard and (seconds := min(run.shard_seconds, run.end - time.monotonic())) > SHORTEST:
            prefix = (run.sanitizer, "--tool", tool, "--target-processes", "all", "--print-limit")
            outcome = run_shard(
                Shard(shard, (*prefix, "1000"), run.environment), seconds, is_finding
            )
            with lock:
                tallies[tool].add(outcome)
                _keep(run.state, tallies)
            left = tuple(tallies[tool].left(shard))
            if len(left) == len(shard) and not outcome.seconds_over:
                raise RuntimeError(f"a shard ends before its first test:\n{outcome.tail}")
            # What a test that hung or killed the process kept from running goes on without it.
            shard = left if len(left) < len(shard) else ()

    with ThreadPoolExecutor(run.jobs) as pool:
        shards = [
            [(tool, shard) for shard in shards_of(tallies[tool].left(tests), run.size)]
            for tool in tools
        ]
        # All tools come as far as one another, however early the time is over.
        todo = [item for together in zip_longest(*shards) for item in together if item]
        for done in [pool.submit(one, *item) for item in todo]:
            done.result()
    return tallies


def _known(state: Path, tools: Sequence[str]) -> dict[str, Tally]:
    kept = json.loads(state.read_text()) if state.exists() else {}
    return {tool: Tally(**found) for tool, found in kept.items()} | {
        tool: Tally() for tool in tools if tool not in kept
    }


def _keep(state: Path, tallies: dict[str, Tally]) -> None:
    new = state.with_suffix(".new")
    new.write_text(json.dumps({tool: asdict(tally) for tool, tally in tallies.items()}, indent=1))
    new.replace(state)


def summary(tallies: dict[str, Tally], tests: Sequence[str]) -> bool:
    """Prints what is known; whether all has run and is clean."""
    clean = True
    for tool, tally in tallies.items():
        failed = [test for test, how in tally.ended.items() if how == "failed"]
        left, said = len(tally.left(tests)), sum(map(len, tally.findings.values()))
        click.echo(
            f"{tool}: {len(tally.ended)} of {len(tests)} tests ended, {len(failed)} failed, "
            f"{len(tally.stuck)} did not end, {left} left; {said} findings in "
            f"{len(tally.findings)} tests.",
        )
        for test in failed:
            click.echo(f"  failed: {test}")
        for test in tally.stuck:
            click.echo(f"  did not end: {test}")
        for test, lines in tally.findings.items():
            click.echo(f"  {len(lines)} in {test}: {lines[0]}")
        clean = clean and not (failed or tally.stuck or said or left)
    return clean


@click.command(help=__doc__)
@click.argument("paths", nargs=-1)
@click.option("--tool", "tools", multiple=True, type=click.Choice(TOOLS), help="All if left out.")
@click.option("--devices", default="cuda", help="As of PORTABLE_TEST_DEVICES.")
@click.option("--seconds", default=540.0, help="When to stop.")
@click.option("--shard-seconds", default=240.0, help="The most time of a shard.")
@click.option("--size", default=40, help="Tests of a shard.")
@click.option("--jobs", default=4, help="Shards side by side.")
@click.option("--state", default="sanitizer.json", type=click.Path(path_type=Path))
@click.option("--sanitizer", default="compute-sanitizer", help="The program.")
@click.option("--every-test", is_flag=True, help="Those that name no device of these too.")
def main(
    paths: tuple[str, ...],
    tools: tuple[str, ...],
    devices: str,
    seconds: float,
    shard_seconds: float,
    size: int,
    jobs: int,
    state: Path,
    sanitizer: str,
    every_test: bool,
) -> None:
    """Runs the tools and prints the summary."""
    found = shutil.which(sanitizer)
    if found is None:
        raise click.ClickException(f"there is no {sanitizer}; --sanitizer says where it is")
    end = time.monotonic() + seconds
    environment = {"PORTABLE_TEST_DEVICES": devices, "TESTS_ALLOCATOR": "plain"}
    tests = collected(paths or ("tests",), environment)
    if not every_test:
        tests = [test for test in tests if any(name in test for name in devices.split(","))]
    run = Run(found, environment, end, shard_seconds, size, jobs, state)
    tallies = checked(run, tests, tools or TOOLS)
    sys.exit(0 if summary(tallies, tests) else 1)


if __name__ == "__main__":
    main()
