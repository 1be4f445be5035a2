"""Where and with what a run was made."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from portable import registry
from portable.backend import Device

# The libraries that are compared with, as this process loaded them: their threads and settings.

_NAMES: Final = {"openblas": "OpenBLAS", "mkl": "MKL", "blis": "BLIS", "openmp": "OpenMP"}

_WIDER: Final = (
    (
        "avx512dq",
        "AVX-512",
        frozenset({"skylakex", "cooperlake", "sapphirerapids", "skx", "zen4", "zen5"}),
    ),
    ("avx2", "AVX2", frozenset({"haswell", "zen", "zen2", "zen3", "excavator"})),
)
"""What processors may have, its name, and the kernels of OpenBLAS and BLIS made for it."""


_COMPUTE_TYPES: Final = {
    1: "as they are",
    2: "pedantic",
    3: "in half",
    4: "in single",
    7: "in TF32",
}
"""How CuPy says what cuBLAS may round factors to."""


@dataclass(frozen=True, slots=True)
class Library:
    """One library.

    Attributes
    ----------
    name, version : str
        "unknown" where the library does not say its version.
    part_of : str
        The package that brings it; empty for a package itself.
    kernels : str
        What its kernels are made for; empty where it does not say.
    threads : int or None
        How many it works with.
    settings : dict of str to str
        What else its speed depends on.
    """

    name: str
    version: str
    part_of: str = ""
    kernels: str = ""
    threads: int | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name} of {self.part_of}" if self.part_of else self.name


def libraries() -> list[dict[str, Any]]:
    """Those that this process has loaded by now, as `Library` has it."""
    result: list[Library] = []
    for source in (_of_threads, _pytorch, _dpnp, _cupy):
        with suppress(Exception):  # a release that says it otherwise must not cost a cell
            result += source()
    return [asdict(library) for library in result]


def _of_threads() -> Iterator[Library]:
    """Libraries of products and of threads, asked by threadpoolctl where it is installed."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return
    for entry in threadpool_info():
        name = _NAMES.get(entry["internal_api"], entry["internal_api"])
        layer = entry.get("threading_layer")
        yield Library(
            name,
            entry["version"] or "unknown",
            _package_of(Path(entry["filepath"])),
            entry.get("architecture") or "",
            entry["num_threads"],
            {"threads by": layer} if layer else {},
        )


def _package_of(path: Path) -> str:
    """The package that a shared library lies in; "the system" for one that lies in none."""
    parts = path.parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts[:-2]:
            return parts[parts.index(folder) + 1].removesuffix(".libs")
    return "the system"


def _pytorch() -> Iterator[Library]:
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    settings = {"single precision": f"{torch.get_float32_matmul_precision()} (TF32 unless highest)"}
    cudnn = torch.backends.cudnn
    if torch.cuda.is_available():
        settings["cuDNN"] = str(cudnn.version())
        settings["cuDNN's benchmark mode"] = "on" if cudnn.benchmark else "off"
        settings["TF32 in convolutions"] = "on" if cudnn.allow_tf32 else "off"
    kernels = torch.backends.cpu.get_cpu_capability()
    yield Library("PyTorch", torch.__version__, "", kernels, torch.get_num_threads(), settings)


def _dpnp() -> Iterator[Library]:
    dpnp: Any = sys.modules.get("dpnp")
    if dpnp is None:
        return
    for device in registry.devices_of_backend("sycl"):
        queue = dpnp.empty(0, **device.creation_arguments()).sycl_queue
        order = "in order" if queue.is_in_order else "out of order"
        text = f"{queue.backend.name} {queue.sycl_device.name}, {order}"
        yield Library("dpnp", dpnp.__version__, settings={f"queue of {device.name}": text})


def _cupy() -> Iterator[Library]:
    cupy: Any = sys.modules.get("cupy")
    if cupy is None:
        return
    core, settings = cupy._core, dict[str, str]()
    with suppress(Exception):  # other names in other releases
        accelerators = map(str, core.get_routine_accelerators())
        settings["accelerators"] = ", ".join(accelerators) or "none"
        for kind in ("float16", "float32"):
            chosen = int(core.get_compute_type(kind))
            settings[f"products in {kind}"] = _COMPUTE_TYPES.get(chosen, str(chosen))
        handle = cupy.cuda.device.get_cublas_handle()
        settings["cuBLAS"] = str(cupy.cuda.cublas.getVersion(handle))
    yield Library("CuPy", cupy.__version__, settings=settings)


# -- what is not at its best --------------------------------------------------------------------


def held_back(libraries: Sequence[Library], cores: int, flags: frozenset[str]) -> list[str]:
    """What still holds libraries back, a sentence each.

    Parameters
    ----------
    libraries : sequence of Library
        As they are.
    cores : int
        Those that ours are given.
    flags : frozenset of str
        The processor's, as Linux names them; empty where they are not known.
    """
    notes = [
        f"{library} works with {library.threads} of the {cores} cores that ours are given"
        for library in libraries
        if library.threads is not None and library.threads < cores
    ]
    for library in libraries:
        for flag, name, kernels in _WIDER:
            kernels_here = library.kernels.lower()
            if (
                library.name not in ("OpenBLAS", "BLIS")
                or not kernels_here
                or kernels_here in kernels
            ):
                break
            if flag in flags:
                notes.append(f"{library} runs kernels for {library.kernels}, not for {name}")
                break
    return notes


# -- environment -----------------------------------------------------------------------------------

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
    told = ("name", "vendor", "kind", "architecture", "driver", "compute_units")
    return {name: getattr(device.capabilities, name) for name in told}


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


_ARCHIVED: Final = "$Format:%H$"
"""The commit, which ``git archive`` puts here: see .gitattributes."""


def _commit() -> str | None:
    """The commit of the archive, or of the checkout and marked if that was changed."""
    if not _ARCHIVED.startswith("$"):
        return _ARCHIVED[:12]
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
