"""What waits, on real devices, with many perturbed timings (``PORTABLE_PERTURB``).

    python -m tests.gpu.perturb --devices cuda,opencl:nvidia --seeds 20 --seconds 540 --jobs 14

For each seed and device it reduces bands of 2 to 4 superdiagonals, once as they are and once with
the follow distance that they had when they were wrong, and runs the tests of whatever waits. It
ends in time, and prints counts: of wrong bands, and of tests that passed and failed with each seed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import click

from tests.gpu.shards import ROOT, Shard, collected, run_shard, shards_of

FAULT = "a pack follows the one before by one block where it overlaps two"
TESTS = (
    "tests/linalg/test_band.py::test_larger_bands",
    "tests/linalg/test_band.py::test_large_matrices_keep_their_norms",
    "tests/linalg/test_band.py::test_each_residency_on_each_device",
    "tests/linalg/test_svdvals.py::test_larger_matrices",
    "tests/linalg/test_dense_band.py::test_larger_matrices",
    "tests/linalg/test_dense_band.py::test_the_layout_of_other_devices",
    "tests/nn/test_training.py::test_gradients_are_right",
    "tests/nn/test_training.py::test_gradients_are_clipped_by_their_norm",
    "tests/nn/test_training.py::test_training_learns",
    "tests/array/test_scans.py",
    "tests/array/test_block_scans.py::test_blocks_go_on_from_those_before",
    "tests/array/test_block_scans.py::test_nobody_waits_for_those_who_do_not_come",
    "tests/array/test_sorting.py::test_on_the_device",
    "tests/array/test_sorting.py::test_the_ways_that_lengths_choose",
)
"""Those of whatever waits for others."""

SHORTEST = 15.0
"""Seconds that must be left for another process to begin."""


@dataclass(slots=True)
class Count:
    """What came of one kind of work on one device.

    Attributes
    ----------
    right, wrong : int
        Bands or tests.
    seeds : set of int
        Those with which something was wrong.
    unfinished : int
        Processes that were not begun, or not done in time.
    told : list of str
        What went wrong.
    """

    right: int = 0
    wrong: int = 0
    seeds: set[int] = field(default_factory=set)
    unfinished: int = 0
    told: list[str] = field(default_factory=list)

    def add(self, seed: int, result: Result) -> None:
        """Adds what came of a process."""
        right, wrong, told, over = result
        self.right += right
        self.wrong += wrong
        self.unfinished += over
        if wrong:
            self.seeds.add(seed)
        self.told += [f"seed {seed}: {text}" for text in told]


Result = tuple[int, int, list[str], bool]
"""How many were right, how many wrong, what was told, and whether the time was over."""


def bands(device: str, environment: dict[str, str], seconds: float) -> Result:
    """Bands in a process of their own."""
    command = [sys.executable, "-m", "tests.gpu.bands", device]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return 0, 0, [], True
    if done.returncode:
        return 0, 1, [done.stderr[-600:]], False
    found = json.loads(done.stdout.splitlines()[-1])
    told = [f"{found['wrong']} of {found['of']}, off by up to {found['worst']:.1e}"]
    return found["of"] - found["wrong"], found["wrong"], told if found["wrong"] else [], False


def tests(shard: tuple[str, ...], environment: dict[str, str], seconds: float) -> Result:
    """Tests in a process of their own."""
    outcome = run_shard(Shard(shard, environment=environment), seconds)
    wrong = outcome.failed
    if not outcome.seconds_over:
        wrong += [outcome.stuck] if outcome.stuck else []
        wrong += [] if outcome.ended else [outcome.tail]
    right = sum(how == "passed" for how in outcome.ended.values())
    return right, len(wrong), wrong, outcome.seconds_over


@dataclass(frozen=True, slots=True)
class Job:
    """A process to be run with a seed."""

    label: str
    seed: int
    work: Callable[[dict[str, str], float], Result]
    environment: dict[str, str]


def jobs_for(devices: list[str], seeds: range, paths: tuple[str, ...], size: int) -> list[Job]:
    """All jobs, the first seeds first."""
    shards = {device: shards_of(_tests_on(device, paths), size) for device in devices}
    return [
        job for seed in seeds for device in devices for job in _jobs(device, seed, shards[device])
    ]


def _tests_on(device: str, paths: tuple[str, ...]) -> list[str]:
    found = collected(paths, {"PORTABLE_TEST_DEVICES": device})
    return [test for test in found if f"[{device}" in test or f"-{device}" in test]


def _jobs(device: str, seed: int, shards: list[tuple[str, ...]]) -> list[Job]:
    own = {"PORTABLE_PERTURB": str(seed), "PORTABLE_TEST_DEVICES": device}

    def on_bands(environment: dict[str, str], seconds: float) -> Result:
        return bands(device, environment, seconds)

    def on_tests(shard: tuple[str, ...]) -> Callable[[dict[str, str], float], Result]:
        return lambda environment, seconds: tests(shard, environment, seconds)

    return [
        Job(
            f"{device}: bands with the old follow distance",
            seed,
            on_bands,
            own | {"TESTS_FAULT": FAULT},
        ),
        Job(f"{device}: bands", seed, on_bands, own),
        *(Job(f"{device}: tests", seed, on_tests(shard), own) for shard in shards),
    ]


def run(todo: list[Job], end: float, side_by_side: int) -> dict[str, Count]:
    """Runs jobs until the time is over."""
    counts = {job.label: Count() for job in todo}
    lock = threading.Lock()

    def one(job: Job) -> None:
        left = end - time.monotonic()
        nothing: Result = (0, 0, [], True)
        found = job.work(job.environment, left) if left > SHORTEST else nothing
        with lock:
            counts[job.label].add(job.seed, found)

    with ThreadPoolExecutor(side_by_side) as pool:
        for done in [pool.submit(one, job) for job in todo]:
            done.result()
    return counts


def show(counts: dict[str, Count]) -> bool:
    """Prints the counts; whether the old distance alone was wrong."""
    good = True
    for label, count in counts.items():
        click.echo(
            f"{label}: {count.right} right, {count.wrong} wrong with {len(count.seeds)} seeds; "
            f"{count.unfinished} processes not run or not done.",
        )
        for text in count.told[:40]:
            click.echo(f"  {text}")
        good = good and (bool(count.wrong) == ("old follow distance" in label))
    return good


@click.command(help=__doc__)
@click.argument("paths", nargs=-1)
@click.option("--devices", default="cuda,opencl:nvidia", help="Separated by commas.")
@click.option("--seeds", default=20, help="How many, from --first on.")
@click.option("--first", default=1, help="The first seed.")
@click.option("--seconds", default=540.0, help="When to stop.")
@click.option("--size", default=30, help="Tests of a process.")
@click.option("--jobs", "side_by_side", default=14, help="Processes side by side.")
def main(
    paths: tuple[str, ...],
    devices: str,
    seeds: int,
    first: int,
    seconds: float,
    size: int,
    side_by_side: int,
) -> None:
    """Runs the jobs and prints the counts."""
    end = time.monotonic() + seconds
    todo = jobs_for(devices.split(","), range(first, first + seeds), paths or TESTS, size)
    sys.exit(0 if show(run(todo, end, side_by_side)) else 1)


if __name__ == "__main__":
    main()
