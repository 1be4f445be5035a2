"""Makes every OpenCL driver visible to every OpenCL loader of this process.

Loaders read a folder of ``.icd`` files, each naming one driver. Drivers installed by pip are in
no such folder, or name a path that does not exist, so a folder of our own names them all. It has
to be known before the first loader starts, through the environment.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from portable.system import cache, private_folders
from portable.system.console import warn_once
from portable.system.files import write_whole
from portable.system.locks import fork_safe_lock

_VARIABLE = "OCL_ICD_VENDORS"
_PREFIX = "icd-"
_SYSTEM_FOLDER = Path("/etc/OpenCL/vendors")
_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
    "/opt/rocm/lib",
)
_KNOWN_LIBRARIES = ("libnvidia-opencl.so.1", "libamdocl64.so")
_LIBRARIES = ("dpctl", "pyopencl")
_POCL = "libpocl.so"
_MAPPED = Path("/proc/self/maps")
_lock = fork_safe_lock()
_hidden: list[str] = []
_used_before: set[str] = set()


def announce() -> None:
    """Point OpenCL loaders at a folder naming every driver, unless the user pointed them elsewhere.

    Does nothing outside Linux, whose loaders alone read folders.
    """
    with _lock:
        if sys.platform != "linux" or _is_told(os.environ.get(_VARIABLE, "")):
            return
        drivers = find_drivers()
        if drivers:
            _used_before.update(name for name in _LIBRARIES if name in sys.modules)
            _hidden.extend(_unknown(drivers))
            os.environ[_VARIABLE] = str(write_folder(drivers))


def was_used_before(library: str) -> bool:
    """Whether a Python library of `_LIBRARIES` was imported before `announce`."""
    return library in _used_before


def warn_of_hidden() -> None:
    """Say which drivers a loader does not know because it was started before `announce`."""
    if _hidden:
        warn_once(
            "OpenCL was used in this process before Portable was asked for a device, and does not "
            f"know the driver {' or '.join(_hidden)}; {remedy()}"
        )


def remedy() -> str:
    """What makes every driver known."""
    return (
        "ask Portable first (portable.devices()), or start the process with "
        f"{_VARIABLE}={os.environ.get(_VARIABLE, '')}"
    )


def _unknown(drivers: Iterable[str]) -> list[str]:
    """The drivers that a loader did not find which was started already; none if none was.

    A loader looks for drivers once in a process, when it is first used; that it was is seen by a
    driver in memory, if only by PoCL's from PyOpenCL's wheel.
    """
    try:
        mapped = os.fsdecode(_MAPPED.read_bytes())
    except OSError:
        return []
    loaded = [d for d in (*drivers, _POCL) if f"/{_stem(d)}" in mapped]
    return [d for d in drivers if d not in loaded and Path(d).exists()] if loaded else []


def _is_told(where: str) -> bool:
    """Whether loaders are pointed elsewhere; a folder that a parent process removed counts not."""
    return bool(where) and not (Path(where).name.startswith(_PREFIX) and not Path(where).is_dir())


def find_drivers() -> list[str]:
    """The driver libraries to name: pip's first, then the system's, each library once."""
    drivers: dict[str, str] = {}
    for library in (*_from_pip(), *_from_system(_SYSTEM_FOLDER), *_from_library_folders()):
        drivers.setdefault(_stem(library), library)
    return list(drivers.values())


def write_folder(drivers: Iterable[str]) -> Path:
    """A folder with one ``.icd`` file per driver; the same drivers give the same folder.

    Drivers are code that will be run, so that it is one which nobody else can write to; where
    nothing is to be kept, a temporary one.
    """
    lines = list(drivers)
    name = _PREFIX + hashlib.sha256(os.fsencode("\n".join(lines))).hexdigest()[:16]
    if cache.enabled():
        with suppress(OSError):
            return _fill(cache.folder() / name, lines)
    return _fill(private_folders.temporary() / name, lines)


def _fill(folder: Path, lines: list[str]) -> Path:
    private_folders.make(folder)
    wanted = {
        folder / f"{i:02}-{_stem(line)}.icd": os.fsencode(f"{line}\n")
        for i, line in enumerate(lines)
    }
    for file in folder.glob("*.icd"):
        if file not in wanted:
            file.unlink()
    for target, content in wanted.items():
        if not target.exists() or target.read_bytes() != content:
            write_whole(target, content)
    return folder


def _stem(library: str) -> str:
    return Path(library).name.partition(".so")[0]


def _from_pip() -> Iterator[str]:
    """Intel's runtime; PyOpenCL's bundled loader finds PoCL's wheel by itself."""
    try:
        files = metadata.distribution("intel-opencl-rt").files or ()
    except metadata.PackageNotFoundError:
        return
    for file in files:
        if file.name == "libintelocl.so":
            yield str(Path(str(file.locate())).resolve())


def _from_system(folder: Path) -> Iterator[str]:
    try:
        entries = sorted(folder.glob("*.icd"))
    except OSError:
        return
    for entry in entries:
        try:
            line = os.fsdecode(entry.read_bytes()).strip()
        except OSError:
            continue
        if line:
            yield _absolute(line)


def _absolute(library: str) -> str:
    """Where a bare file name lies; itself where the dynamic loader has to find it."""
    return library if "/" in library else next(_search(library), library)


def _from_library_folders() -> Iterator[str]:
    for name in _KNOWN_LIBRARIES:
        yield from _search(name)


def _search(name: str) -> Iterator[str]:
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":") + list(_LIBRARY_FOLDERS)
    for folder in filter(None, folders):
        path = Path(folder) / name
        if path.exists():
            yield str(path)
