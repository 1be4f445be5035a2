"""Long runs of random kernels: ``python -m tests.support.random_sweep --device cpu:intel``.

The kernels are made in short-lived processes, so that a compiler that crashes or hangs costs one
of them. A kernel that fails is made shorter while it fails in the same way, and stored. The run
ends at its time limit, with counts and the failing seeds; the exit status says whether all was
well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import click

from tests.support.random_checks import FAMILIES, PROGRAMS, Case

_MADE: Final = FAMILIES | PROGRAMS
_CHUNK: Final = 60
"""Kernels per process."""
_PATIENCE: Final = 240.0
"""Seconds without a sign of life after which a process is ended."""


@dataclass
class Sweep:
    """What a run found so far."""

    out: Path
    passed: Counter[str] = field(default_factory=Counter)
    failed: dict[str, list[int]] = field(default_factory=dict)

    def failure(self, family: str, seed: int, error: str, text: str) -> None:
        """Notes and stores one."""
        self.failed.setdefault(family, []).append(seed)
        self.out.mkdir(parents=True, exist_ok=True)
        note = "".join(f"# {line}\n" for line in error.splitlines()[:40])
        (self.out / f"{family}_{seed}.py").write_text(note + text)
        click.echo(f"FAILED {family} {seed}: {error.splitlines()[0] if error else ''}")

    def summary(self) -> str:
        """Counts, and seeds by family."""
        lines = [f"passed: {dict(self.passed)}"]
        lines += [f"failed: {family}: {seeds}" for family, seeds in sorted(self.failed.items())]
        return "\n".join(lines if self.failed else [*lines, "failed: none"])


# -- in the short-lived process -------------------------------------------------------------------


def _fails(case: Case, device: Any, text: str, folder: Path) -> str:
    """What goes wrong, its kind before a line break and its message after; empty if nothing."""
    try:
        case.check(device, text, folder)
    except Exception as error:  # noqa: BLE001 - whatever a kernel brings about is what is sought
        return f"{type(error).__name__}\n{error}"
    return ""


def _kind(error: str) -> str:
    """What two failures of one cause have in common: the exception, and what a refusal says."""
    name, _, message = error.partition("\n")
    return name if name == "AssertionError" else name + message.split("\n")[0].rpartition(": ")[2]


def _shortened(case: Case, device: Any, folder: Path, seconds: float = 60) -> str:
    """The kernel less whatever lines it fails without, in the same way."""
    kind = _kind(_fails(case, device, case.text, folder))
    lines, size = case.text.splitlines(), 16
    until = time.monotonic() + seconds
    while size:
        at = 0
        while at < len(lines) and time.monotonic() < until:
            fewer = [*lines[:at], *lines[at + size :]]
            if _kind(_fails(case, device, "\n".join(fewer) + "\n", folder)) == kind:
                lines = fewer
            else:
                at += size
        size //= 2
    return "\n".join(lines) + "\n"


def _work(device_name: str, jobs: list[tuple[str, int]]) -> None:
    """Checks kernels, and says so line by line in JSON."""
    import portable as pt

    device = pt.device(device_name)
    with tempfile.TemporaryDirectory() as name:
        for family, seed in jobs:
            click.echo(json.dumps({"begun": [family, seed]}))
            case = _MADE[family](Random(seed))
            error = _fails(case, device, case.text, Path(name))
            text = _shortened(case, device, Path(name)) if error else ""
            found = {"family": family, "seed": seed, "error": error, "text": text}
            click.echo(json.dumps(found))


# -- in the process that lasts ------------------------------------------------------------------


def _run(sweep: Sweep, device: str, jobs: list[tuple[str, int]], until: float) -> None:
    """Checks kernels in a process; those after one that ends the process, in another."""
    while jobs and time.monotonic() < until:
        done, crash = _run_once(sweep, device, jobs, until)
        jobs = jobs[done:]
        if crash and jobs:
            family, seed = jobs.pop(0)
            sweep.failure(family, seed, crash, _MADE[family](Random(seed)).text)


def _run_once(
    sweep: Sweep, device: str, jobs: list[tuple[str, int]], until: float
) -> tuple[int, str]:
    """How many were checked, and how the process came to a bad end, if it did."""
    command = [sys.executable, "-m", "tests.support.random_sweep", "--device", device, "--jobs"]
    with tempfile.TemporaryDirectory() as name:
        said, log = Path(name) / "said", Path(name) / "log"
        with said.open("w") as out, log.open("w") as err:
            process = subprocess.Popen(
                [*command, json.dumps(jobs)],
                stdout=out,
                stderr=err,
                env=os.environ | {"PORTABLE_CACHE": "0"},
            )
            done = _watched(sweep, process, said, until)
        late = process.poll() is None
        process.kill()
        status = process.wait()
        if not late and status:
            return done, f"the process ended with {status}\n{log.read_text()[-2000:]}"
    return done, "no sign of life" if late and time.monotonic() < until else ""


def _watched(sweep: Sweep, process: subprocess.Popen[bytes], said: Path, until: float) -> int:
    """Notes what a process says until it ends, falls silent or the time is up."""
    done, alive, seen = 0, time.monotonic(), 0
    while True:
        ended = process.poll() is not None
        lines = said.read_text().split("\n")[seen:-1]
        seen += len(lines)
        done += sum(_noted(sweep, line) for line in lines)
        now = time.monotonic()
        alive = now if lines else alive
        if ended or now > until or now - alive > _PATIENCE:
            return done
        time.sleep(0.1)


def _noted(sweep: Sweep, line: str) -> bool:
    """Takes a line of the process in; whether it is about a kernel that is done."""
    if not line.startswith("{"):
        return False
    found = json.loads(line)
    if "begun" in found:
        return False
    if found["error"]:
        sweep.failure(found["family"], found["seed"], found["error"], found["text"])
    else:
        sweep.passed[found["family"]] += 1
    return True


@click.command()
@click.option("--device", required=True, help="The device's name.")
@click.option("--count", default=1000, show_default=True, help="Kernels in all.")
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--minutes", default=10.0, show_default=True, help="When to end at the latest.")
@click.option("--families", default=",".join(FAMILIES), show_default=True)
@click.option("--out", default="failed-kernels", show_default=True, type=Path)
@click.option("--jobs", default="", hidden=True)
def main(
    device: str, count: int, seed: int, minutes: float, families: str, out: Path, jobs: str
) -> None:
    """Random kernels on a device, against Python, NumPy and the simulator.

    The family "arrays" is of programs of portable.array, for devices that have it.
    """
    if jobs:
        _work(device, [(family, number) for family, number in json.loads(jobs)])
        return
    sweep, names = Sweep(out / device.replace(":", "-")), families.split(",")
    until = time.monotonic() + 60 * minutes
    todo = [(names[n % len(names)], seed + n // len(names)) for n in range(count)]
    for first in range(0, count, _CHUNK):
        _run(sweep, device, todo[first : first + _CHUNK], until)
    click.echo(f"{device}, seeds from {seed}: {sweep.summary()}")
    sys.exit(bool(sweep.failed))


if __name__ == "__main__":
    main()
