"""Where and with what a run was made."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from portable.backend import Device
from portable_bench.libraries import Library, held_back

_LIBRARIES: Final = (
    "portable-arrays",
    "numpy",
    "scipy",
    "torch",
    "pyopencl",
    "pocl-binary-distribution",
    "intel-opencl-rt",
    "dpnp",
    "dpctl",
    "mkl",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "cupy-rocm-7-0",
)


def environment(devices: Sequence[Device], options: dict[str, Any]) -> dict[str, Any]:
    """Machine, versions, commit, devices and options, as JSON takes them."""
    return {
        "time": now(),
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
        },
        "python": platform.python_version(),
        "versions": _versions(),
        "commit": _commit(),
        "devices": {d.name: _described(d) for d in devices},
        "options": options,
    }


def now() -> str:
    """The time in UTC, as ISO 8601 has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def peers(
    taken: Mapping[str, str], libraries: Sequence[Mapping[str, Any]], cores: int
) -> dict[str, Any]:
    """What libraries ran with, for the environment.

    Parameters
    ----------
    taken : mapping of str to str
        Variables that they were started without.
    libraries : sequence of mapping
        What `libraries` gave over there.
    cores : int
        Those that ours are given.
    """
    described = [Library(**entry) for entry in libraries]
    notes = held_back(described, cores, processor_flags())
    if find_spec("threadpoolctl") is None:
        notes.append(
            "kernels and threads are not recorded: threadpoolctl is not installed; "
            "pip install 'portable-arrays[bench]'"
        )
    return {"taken_away": dict(taken), "libraries": list(libraries), "held_back": notes}


def processor_flags() -> frozenset[str]:
    """What the processor can do, as Linux names it; empty where the system does not tell."""
    return frozenset(next(_of_processor("flags"), "").split())


def _of_processor(name: str) -> Iterator[str]:
    """What the system says under a name, once for each core."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    yield from (line.partition(":")[2].strip() for line in lines if line.startswith(name))


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """What makes times of two runs incomparable, with what it is in either; None where it lacks.

    Devices and libraries count that both runs have.
    """
    pairs = [
        ("the commit", one["commit"], other["commit"]),
        ("Python", one["python"], other["python"]),
        *_values("the machine's", one["machine"], other["machine"]),
        *_values("the version of", one["versions"], other["versions"]),
    ]
    for name in sorted(one["devices"].keys() & other["devices"].keys()):
        pairs += _values(f"{name}'s", one["devices"][name], other["devices"][name])
    mine, theirs = _by_name(one), _by_name(other)
    for name in sorted(mine.keys() & theirs.keys()):
        pairs += _values(f"{name}'s", mine[name], theirs[name])
    return (pair for pair in pairs if pair[1] != pair[2])


def _by_name(environment: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Kernels and threads of libraries; none in files of releases that did not look."""
    libraries = [Library(**entry) for entry in environment.get("peers", {}).get("libraries", ())]
    return {str(x): {"kernels": x.kernels, "threads": x.threads} for x in libraries}


def _values(
    what: str, one: Mapping[str, Any], other: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    return [(f"{what} {k}", one.get(k), other.get(k)) for k in sorted(one.keys() | other.keys())]


def _described(device: Device) -> dict[str, Any]:
    can = device.capabilities
    return {
        "name": can.name,
        "vendor": can.vendor,
        "kind": can.kind,
        "architecture": can.architecture,
        "driver": can.driver,
        "compute_units": can.compute_units,
    }


def _versions() -> dict[str, str]:
    versions: dict[str, str] = {}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _processor() -> str:
    """The model's name; what `platform` says where the system does not tell."""
    return next(_of_processor("model name"), platform.processor())


def _commit() -> str | None:
    """The commit of the checkout that this file is part of, marked where files were changed."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(  # noqa: S603  (a fixed command)
            command,
            cwd=Path(__file__).resolve().parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() or None
