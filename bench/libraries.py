"""The libraries that are compared with, as this process loaded them: their threads and settings."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from portable import registry

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
