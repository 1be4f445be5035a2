"""What is known of the processor without asking a compiler."""

from __future__ import annotations

import importlib
import os
import platform
import sys
import sysconfig
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from portable.errors import DeviceError
from portable.system.isolation import usable_cores

THREADS: Final = "PORTABLE_CPU_THREADS"
"""The variable that limits how many threads run kernels."""

_MACHINES: Final[dict[str, Literal["x86_64", "aarch64"]]] = {
    "amd64": "x86_64",
    "x86_64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
}
_CPUINFO: Final = Path("/proc/cpuinfo")
_REGISTRY_KEY: Final = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"


def machine() -> Literal["x86_64", "aarch64"] | None:
    """The instruction set of this Python by its usual name; None if it has no kernels.

    A Python of 32 bits runs on processors of 64, as on many a Raspberry Pi, and one for x86-64 on
    Windows' ARM machines, which name themselves by what they are.
    """
    if sys.maxsize < 2**32:
        return None
    windows = sysconfig.get_platform().removeprefix("win-") if sys.platform == "win32" else ""
    return _MACHINES.get(windows or platform.machine().lower())


def threads() -> int:
    """How many threads run kernels: the cores that this process may use, or fewer if asked for.

    Raises
    ------
    DeviceError
        If `THREADS` holds no positive number.
    """
    cores = usable_cores()
    text = os.environ.get(THREADS, "").strip()
    if not text:
        return cores
    if not text.isdecimal() or int(text) < 1:
        raise DeviceError(
            f"{THREADS} is {text!r}; expected how many threads may run kernels, such as {cores}"
        )
    return min(int(text), cores)


@cache
def _features() -> dict[str, bool]:
    """What NumPy found that the processor has, by its names of instruction sets."""
    try:
        module: Any = importlib.import_module("numpy._core._multiarray_umath")
    except ImportError:
        return {}
    return dict(getattr(module, "__cpu_features__", {}))


def vector_bytes() -> int:
    """Of the widest registers of vectors: 64 with AVX-512, 32 with AVX2, 16 otherwise."""
    features = _features()
    if features.get("AVX512_SKX") or (features.get("AVX512F") and features.get("AVX512VL")):
        return 64
    return 32 if features.get("AVX2") else 16


def vector_registers() -> int:
    """How many of them there are."""
    return 32 if machine() == "aarch64" or vector_bytes() == 64 else 16


def instruction_set() -> str:
    """A name for what plans may use, such as ``"x86_64-avx512"`` or ``"aarch64-neon"``."""
    name = machine() or platform.machine().lower()
    if name == "aarch64":
        return f"{name}-neon"
    return f"{name}-{ {64: 'avx512', 32: 'avx2', 16: 'sse'}[vector_bytes()] }"


@cache
def model_name() -> str:
    """What the maker calls the processor."""
    named = ""
    with suppress(OSError, ImportError, ValueError):
        if sys.platform == "linux":
            named = _of_linux()
        elif sys.platform == "darwin":
            named = _of_macos()
        elif sys.platform == "win32":
            named = _of_windows()
    return named or platform.processor() or platform.machine()


def _of_linux() -> str:
    """From /proc/cpuinfo; ARM's have numbers instead of a name."""
    entries: dict[str, str] = {}
    for line in _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
        word, _, value = line.partition(":")
        entries.setdefault(word.strip(), value.strip())
    if "model name" in entries:
        return entries["model name"]
    numbers = [entries.get(f"CPU {word}", "") for word in ("implementer", "part")]
    return f"ARM {' '.join(numbers)}" if all(numbers) else ""


def _of_macos() -> str:
    import ctypes

    text, size = ctypes.create_string_buffer(256), ctypes.c_size_t(256)
    ask = ctypes.CDLL(None).sysctlbyname
    failed = ask(b"machdep.cpu.brand_string", text, ctypes.byref(size), None, ctypes.c_size_t(0))
    return "" if failed else text.value.decode(errors="replace")


def _of_windows() -> str:
    registry: Any = importlib.import_module("winreg")
    with registry.OpenKey(registry.HKEY_LOCAL_MACHINE, _REGISTRY_KEY) as key:
        return str(registry.QueryValueEx(key, "ProcessorNameString")[0])
