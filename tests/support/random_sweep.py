"""Long runs of random kernels: ``python -m tests.support.random_sweep --device cpu:intel``.

The kernels are made in short-lived processes, some of them side by side, so that a compiler that
crashes or hangs costs one kernel, and the programs that a process keeps cost little memory. A
kernel that fails is stored, and made shorter while it fails in the same way. The run ends at its
time limit, with counts and the failing seeds; the exit status says whether all was well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import click

from tests.support.random_checks import FAMILIES, PROGRAMS, Case

_MADE: Final = FAMILIES | PROGRAMS
_CHUNK: Final = 240
"""The most kernels of a process, which keeps about 2 MB for each."""
_PATIENCE: Final = 240.0
"""Seconds of processor time without a sign of life after which a process is ended: what others do
beside it takes none of them."""
_SLEEP: Final = 1200.0
"""The same by the clock, for a process that sleeps, and for systems that do not tell."""


@dataclass
class Sweep:
    """What a run found so far."""

    out: Path
    passed: Counter[str] = field(default_factory=Counter)
    failed: dict[str, list[int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def success(self, family: str) -> None:
        """Counts one."""
        with self.lock:
            self.passed[family] += 1

    def failure(self, family: str, seed: int, error: str, text: str) -> None:
        """Notes and stores one; of one that is noted already, its shorter text."""
        with self.lock:
            seeds = self.failed.setdefault(family, [])
            if seed not in seeds:
                seeds.append(seed)
                click.echo(f"FAILED {family} {seed}: {' '.join(error.split())[:200]}")
            self.out.mkdir(parents=True, exist_ok=True)
            note = "".join(f"# {line}\n" for line in error.splitlines()[:40])
            (self.out / f"{family}_{seed}.py").write_text(note + text)

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
    """Checks kernels up to the first that fails, and says so line by line in JSON.

    What a failure leaves behind, as an address out of bounds does on a GPU, concerns no other.
    """
    import portable as pt

    device = pt.device(device_name)
    with tempfile.TemporaryDirectory() as name:
        for family, seed in jobs:
            click.echo(json.dumps({"begun": [family, seed]}))
            case = _MADE[family](Random(seed))
            error = _fails(case, device, case.text, Path(name))
            found = {"family": family, "seed": seed, "error": error}
            if error:
                click.echo(json.dumps(found | {"text": case.text}))
                click.echo(json.dumps(found | {"shorter": _shortened(case, device, Path(name))}))
                return
            click.echo(json.dumps(found))


# -- in the process that lasts ------------------------------------------------------------------


@dataclass
class _Said:
    """What a process has said so far."""

    begun: int = 0
    done: int = 0
    lines: int = 0

    def note(self, sweep: Sweep, lines: list[str]) -> None:
        """Takes all lines in, of which it knows the first already."""
        for line in lines[self.lines :]:
            if line.startswith("{"):
                self._note(sweep, json.loads(line))
        self.lines = len(lines)

    def _note(self, sweep: Sweep, found: dict[str, Any]) -> None:
        if "begun" in found:
            self.begun += 1
            return
        self.done += "shorter" not in found
        if found["error"]:
            text = found.get("shorter") or found["text"]
            sweep.failure(found["family"], found["seed"], found["error"], text)
        else:
            sweep.success(found["family"])


def _run(sweep: Sweep, device: str, jobs: list[tuple[str, int]], until: float) -> None:
    """Checks kernels in a process; those after one that ends the process, in another."""
    while jobs and time.monotonic() < until:
        said, end = _run_once(sweep, device, jobs, until)
        if end and not said.begun:
            raise click.ClickException(f"a process ends before its first kernel: {end}")
        if end and said.begun > said.done:
            family, seed = jobs[said.done]
            sweep.failure(family, seed, end, _MADE[family](Random(seed)).text)
        jobs = jobs[said.begun if end else said.done :]


def _run_once(
    sweep: Sweep, device: str, jobs: list[tuple[str, int]], until: float
) -> tuple[_Said, str]:
    """How far it came, and how the process came to a bad end, if it did."""
    command = [sys.executable, "-m", "tests.support.random_sweep", "--device", device, "--jobs"]
    with tempfile.TemporaryDirectory() as name:
        out, log = Path(name) / "said", Path(name) / "log"
        with out.open("w") as stdout, log.open("w") as stderr:
            process = subprocess.Popen(
                [*command, json.dumps(jobs)],
                stdout=stdout,
                stderr=stderr,
                env=os.environ | {"PORTABLE_CACHE": "0"},
            )
            said = _watched(sweep, process, out, until)
        late = process.poll() is None
        process.kill()
        status = process.wait()
        if not late and status:
            return said, f"the process ended with {status}\n{log.read_text()[-2000:]}"
    return said, "no sign of life" if late and time.monotonic() < until else ""


def processor_time(process: int) -> float:
    """Seconds that a process has worked, by the system's count of them; 0 where it has none."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0


def _watched(sweep: Sweep, process: subprocess.Popen[bytes], out: Path, until: float) -> _Said:
    """Notes what a process says until it ends, falls silent or the time is up."""
    said, alive, worked = _Said(), time.monotonic(), 0.0
    while True:
        ended = process.poll() is not None
        before = said.lines
        said.note(sweep, out.read_text().split("\n")[:-1])
        now, work = time.monotonic(), processor_time(process.pid)
        if said.lines > before:
            alive, worked = now, work
        if ended or now > until or work - worked > _PATIENCE or now - alive > _SLEEP:
            return said
        time.sleep(0.2)


@click.command()
@click.option("--device", required=True, help="The device's name.")
@click.option("--count", default=1000, show_default=True, help="Kernels in all.")
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--minutes", default=10.0, show_default=True, help="When to end at the latest.")
@click.option("--processes", default=1, show_default=True, help="How many run side by side.")
@click.option("--families", default=",".join(FAMILIES), show_default=True)
@click.option("--out", default="failed-kernels", show_default=True, type=Path)
@click.option("--jobs", default="", hidden=True)
def main(
    device: str,
    count: int,
    seed: int,
    minutes: float,
    processes: int,
    families: str,
    out: Path,
    jobs: str,
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
    size = max(1, min(_CHUNK, -(-count // processes)))
    with ThreadPoolExecutor(processes) as pool:
        parts = [todo[first : first + size] for first in range(0, count, size)]
        for part in [pool.submit(_run, sweep, device, part, until) for part in parts]:
            part.result()
    click.echo(f"{device}, seeds from {seed}: {sweep.summary()}")
    sys.exit(bool(sweep.failed))


if __name__ == "__main__":
    main()
