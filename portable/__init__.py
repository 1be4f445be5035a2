"""Array and kernel code in Python, written once, fast on every device.

Write a kernel with `kernel` and the words of `portable.lang`, or call an operation such as
`portable.linalg.gemm`; it runs where its arrays live. ``PORTABLE_BACKEND`` or `use` picks the
device.
"""

from importlib.metadata import version as _version
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from portable import dtypes as _dtypes
from portable import lang, random
from portable.compiled import load_compiled
from portable.dtypes import *  # noqa: F403 - the types of numbers
from portable.dtypes import bool_
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.namespace import asarray, synchronize, to_numpy, xp
from portable.profiling.profiler import annotate, profile
from portable.registry import device, devices, use
from portable.streams import Event, Stream, Timer

if _TYPE_CHECKING:
    from portable import linalg
    from portable.array.fuse import fuse
    from portable.gradients import Tape, custom_vjp, vjp

__version__ = _version("portable-arrays")

__all__ = [
    "Event",
    "Stream",
    "Tape",
    "Timer",
    "__version__",
    "annotate",
    "asarray",
    "bool_",
    "custom_vjp",
    "device",
    "devices",
    "function",
    "fuse",
    "groups",
    "kernel",
    "lang",
    "linalg",
    "load_compiled",
    "profile",
    "random",
    "synchronize",
    "to_numpy",
    "use",
    "vjp",
    "xp",
]
__all__ += _dtypes.__all__

_GRADIENTS = ("Tape", "custom_vjp", "vjp")
_PACKAGES = ("conv", "gf2", "linalg", "nn", "numerics", "parallel", "primitives", "sparse")

if not _TYPE_CHECKING:  # checkers would take any name for one of these

    def __getattr__(name: str) -> _Any:
        """`fuse`, gradients and packages: much to import, which many programs spare."""
        from importlib import import_module

        if name in ("array", "fuse"):
            globals()["fuse"] = import_module("portable.array.fuse").fuse
            return globals()[name]
        if name in _PACKAGES:
            return import_module(f"{__name__}.{name}")
        if name in _GRADIENTS:
            globals()[name] = getattr(import_module("portable.gradients"), name)
            return globals()[name]
        raise _absent(name)

    def _absent(name: str) -> AttributeError:
        import numpy as np

        from portable import absent_names

        if name.startswith("_"):
            return AttributeError(f"module {__name__!r} has no attribute {name!r}")
        instead: dict[str, str] = dict(absent_names.KERNELS_AND_GRADIENTS)
        if name not in instead and hasattr(np, name):
            instead[name] = f"portable.xp().{name}, of the device in use"
        known = (*__all__, *_GRADIENTS, *_PACKAGES)
        return absent_names.lacking(__name__, known, name, instead)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
