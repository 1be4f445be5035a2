"""SciPy's own tests on arrays of `portable.array`: ``python -m tests.peers.scipy --device D``.

Prints for each module of SciPy how many of its tests for other libraries' arrays passed, failed and
were skipped, and which failed. `--out` writes the same as a table for the documentation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

MODULES: Final = {
    "special": "scipy.special.tests.test_support_alternative_backends",
    "logsumexp": "scipy.special.tests.test_logsumexp",
    "fft": "scipy.fft",
    "signal": "scipy.signal.tests.test_windows",
    "integrate": "scipy.integrate",
    "optimize": "scipy.optimize.tests.test_chandrupatla",
    "differentiate": "scipy.differentiate",
    "cluster": "scipy.cluster",
    "stats": "scipy.stats.tests.test_stats scipy.stats.tests.test_variation "
    "scipy.stats.tests.test_entropy",
    "linalg": "scipy.linalg",
}
"""Modules of SciPy with functions for any conforming library, and where their tests are."""

_PATIENCE: Final = 3600


@dataclass
class Outcome:
    """What became of a module's tests.

    Attributes
    ----------
    passed, skipped : int
        How many; SciPy says itself which it skips.
    failed : dict
        For each that failed the first line of why.
    """

    passed: int = 0
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    def row(self, name: str) -> str:
        """A line of a table."""
        return f"| {name} | {self.passed:,} | {len(self.failed):,} | {self.skipped:,} |"


def run(device: str, module: str, chosen: Sequence[str] = ()) -> Outcome:
    """Runs a module's tests in a process of its own.

    Parameters
    ----------
    device : str
        A device with arrays of `portable.array`.
    module : str
        One of `MODULES`.
    chosen : sequence of str
        Further arguments of pytest, such as ``-k``.

    Returns
    -------
    Outcome
        Of those tests that run once for each library.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.peers.scipy_plugin"]
        command += ["-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={folder}"]
        command += ["-W", "ignore", "-m", "array_api_backends", f"--junitxml={report}"]
        command += ["--pyargs", *MODULES[module].split(), *chosen]
        environment = os.environ | {
            "SCIPY_ARRAY_API": '["array_api_strict"]',
            "PORTABLE_BACKEND": device,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]),
        }
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
        )
        if not report.exists():
            raise click.ClickException(f"{module}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return _read(report)


def _read(report: Path) -> Outcome:
    outcome = Outcome()
    for case in ET.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').rpartition('tests.')[2]}::{case.get('name')}"
        problem = case.find("failure")
        problem = case.find("error") if problem is None else problem
        if problem is not None:
            outcome.failed[name] = (problem.get("message") or "").partition("\n")[0][:200]
        elif case.find("skipped") is not None:
            outcome.skipped += 1
        elif "array_api_strict" in name:
            outcome.passed += 1
    return outcome


@click.command()
@click.option("--device", required=True, help="Which device's arrays, such as opencl:intel.")
@click.option("--module", "modules", multiple=True, type=click.Choice(list(MODULES)))
@click.option("-k", "words", default="array_api_strict", help="Of pytest: which tests.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the table.")
def main(device: str, modules: tuple[str, ...], words: str, out: Path | None) -> None:
    """Run SciPy's own tests on arrays of portable.array."""
    rows = ["| module | passed | failed | skipped by SciPy |", "|---|---|---|---|"]
    for module in modules or MODULES:
        outcome = run(device, module, ["-k", words])
        rows.append(outcome.row(module))
        click.echo(rows[-1])
        for name, reason in outcome.failed.items():
            click.echo(f"  {name}: {reason}")
    if out is not None:
        out.write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
