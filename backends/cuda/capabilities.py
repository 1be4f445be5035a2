"""What a GPU says of itself through CuPy, as `Capabilities`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portable.backend import Capabilities
from portable.backend.capabilities import NVIDIA

_Properties = Mapping[str, Any]
_CACHE_LINE = 128
"""Of NVIDIA's and AMD's GPUs; their device properties do not say."""
_WARPGROUPS = frozenset(
    f"wgmma.{kind}" for kind in ("tf32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8")
)


def cuda_capabilities(properties: _Properties, driver: str) -> Capabilities:
    """An NVIDIA GPU, from its device properties."""
    level = (int(properties["major"]), int(properties["minor"]))
    return Capabilities(
        dialect="cuda",
        vendor="nvidia",
        architecture=f"sm_{level[0]}{level[1]}",
        driver=driver,
        sub_group_size=32,
        atomic_lanes=4 if level >= (9, 0) else 1,
        matrix_units=_matrix_units(level),
        async_copy=_async_copy(level),
        local_memory_opt_in=int(
            properties.get("sharedMemPerBlockOptin") or properties["sharedMemPerBlock"]
        ),
        memory_orders="acq_rel",
        forward_progress=level >= (7, 0),
        native_half=level >= (5, 3),
        replays=True,
        faults=NVIDIA,
        **_common(properties),
    )


def rocm_capabilities(properties: _Properties, driver: str) -> Capabilities:
    """An AMD GPU, from its device properties."""
    architecture = _text(properties["gcnArchName"]).partition(":")[0]
    return Capabilities(
        dialect="hip",
        vendor="amd",
        architecture=architecture,
        driver=driver,
        sub_group_size=int(properties["warpSize"]),
        local_memory_opt_in=int(properties["sharedMemPerBlock"]),
        memory_orders="acq_rel",
        native_half=True,
        **_common(properties),
    )


def _common(properties: _Properties) -> dict[str, Any]:
    shape, groups = properties["maxThreadsDim"], properties["maxGridSize"]
    return {
        "kind": "gpu",
        "name": _text(properties["name"]),
        "float64": True,
        "local_memory": int(properties["sharedMemPerBlock"]),
        "max_workgroup": int(properties["maxThreadsPerBlock"]),
        "max_workgroup_shape": (int(shape[0]), int(shape[1]), int(shape[2])),
        "max_groups": (int(groups[0]), int(groups[1]), int(groups[2])),
        "compute_units": int(properties["multiProcessorCount"]),
        "cache_line": _CACHE_LINE,
        "float_atomics": True,
        "streams": True,
        "global_memory": int(properties["totalGlobalMem"]),
        "max_allocation": int(properties["totalGlobalMem"]),
    }


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _matrix_units(level: tuple[int, int]) -> frozenset[str]:
    units = {"mma.f16", "mma.bf16", "mma.tf32", "mma.f64"} if level >= (8, 0) else set()
    return frozenset(units | (_WARPGROUPS if level == (9, 0) else set()))


def _async_copy(level: tuple[int, int]) -> frozenset[str]:
    kinds = {"vector"} if level >= (8, 0) else set()
    return frozenset(kinds | ({"bulk", "tensor"} if level >= (9, 0) else set()))
