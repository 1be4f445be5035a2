"""The environment that libraries are started in: without variables that hold them back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from portable.backend import Device

_HOLDING: Final = frozenset(
    {
        "OPENBLAS_CORETYPE",
        "OPENBLAS_L2_SIZE",
        "BLIS_ARCH_TYPE",
        "BLIS_MODEL_TYPE",
        "NPY_DISABLE_CPU_FEATURES",
        "ATEN_CPU_CAPABILITY",
        "ONEDNN_MAX_CPU_ISA",
        "DNNL_MAX_CPU_ISA",
        "CUDA_LAUNCH_BLOCKING",
        "CUBLAS_WORKSPACE_CONFIG",
        "NVIDIA_TF32_OVERRIDE",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "CUPY_TF32",
    }
)
"""Older kernels, smaller caches, waiting after each launch; and TF32, which is another problem."""

_HOLDING_PREFIXES: Final = ("MKL_",)
_HARMLESS: Final = frozenset({"MKL_INTERFACE_LAYER", "MKL_THREADING_LAYER"})
"""How parts of a library are put together; wrong parts end the process."""

_LIMITS: Final = frozenset(
    {
        "OMP_NUM_THREADS",
        "OMP_THREAD_LIMIT",
        "OPENBLAS_NUM_THREADS",
        "OPENBLAS_DEFAULT_NUM_THREADS",
        "GOTO_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    }
)
"""Numbers of threads, which hold a library back where ours are given more cores."""


def cores_given(devices: Sequence[Device]) -> int:
    """The cores that ours work on."""
    capabilities = (d.capabilities for d in devices)
    return max(
        (can.compute_units for can in capabilities if can.kind == "cpu"),
        default=os.cpu_count() or 1,
    )


def holding(environment: Mapping[str, str], cores: int) -> dict[str, str]:
    """The variables that hold a library back beside ours on so many cores, with their values."""
    return {name: value for name, value in environment.items() if _holds(name, value, cores)}


def _holds(name: str, value: str, cores: int) -> bool:
    if name in _LIMITS:
        first = value.partition(",")[0].strip()  # the others are for threads within threads
        return not (first.isdecimal() and int(first) >= cores)
    if name == "MKL_THREADING_LAYER":
        return value.upper() == "SEQUENTIAL"
    return name in _HOLDING or (name.startswith(_HOLDING_PREFIXES) and name not in _HARMLESS)


@contextmanager
def unheld(cores: int) -> Iterator[dict[str, str]]:
    """A block in which new processes do without such variables; gives those taken away.

    Libraries read them when they are loaded, so that this process goes on as it was.
    """
    taken = holding(os.environ, cores)
    for name in taken:
        del os.environ[name]
    try:
        yield taken
    finally:
        os.environ.update(taken)
