"""What an OpenCL device says of itself, as `Capabilities` and selector words."""

from __future__ import annotations

import platform
from functools import partial
from typing import Any, Literal

import pyopencl as cl

from portable.backend import Capabilities, faults
from portable_backends.opencl.compress import compressed_bytes
from portable_backends.opencl.probes import copies_in_bulk, largest_array
from portable_backends.opencl.warpgroups import has_warpgroups

_PLATFORMS = {
    "portable computing language": "pocl",
    "intel": "intel",
    "nvidia": "nvidia",
    "amd": "amd",
    "oclgrind": "oclgrind",
    "rusticl": "rusticl",
    "apple": "apple",
    "arm": "arm",
    "qualcomm": "qualcomm",
}
_SUB_GROUP_WORDS = ("cl_khr_subgroup_shuffle", "cl_khr_subgroup_shuffle_relative")
_DENORM = 1
_ROUNDED_DIVISION = 128
_ACQ_REL_ON_DEVICE = 2 | 32
_LOCAL_IS_DEDICATED = 1
_WIDEST_VECTOR = 64
_FALLBACK_LOCAL = 32 * 1024
_FALLBACK_LINE = 64
_VOLTA = 7
_AMPERE = 8
_HOPPER = 9
_UNITS = frozenset({"mma.f16", "mma.bf16", "mma.tf32", "mma.f64"})
_WARPGROUPS = frozenset({"wgmma.f16", "wgmma.bf16"})


def is_cpu(device: cl.Device) -> bool:
    """Whether the device is a processor that runs on host memory."""
    return bool(device.type & cl.device_type.CPU)


def platform_word(device: cl.Device) -> str:
    """One lower-case word for the driver: ``"intel"``, ``"pocl"``, ``"nvidia"``, ..."""
    name = f"{device.platform.name} {device.platform.vendor}".lower()
    return next((word for key, word in _PLATFORMS.items() if key in name), name.split()[0])


def words_of(device: cl.Device) -> frozenset[str]:
    """The selector words that match a device: its driver and its kind."""
    return frozenset({platform_word(device), _kind(device)})


def capabilities_of(device: cl.Device) -> Capabilities:
    """What one OpenCL device can do, for arrays in device buffers."""
    extensions = frozenset(device.extensions.split())
    cpu = is_cpu(device)
    shape = tuple(device.max_work_item_sizes[:3])
    local = int(device.local_mem_size) or _FALLBACK_LOCAL
    rounding = int(device.single_fp_config)
    vector_bytes = _vector_bytes(device)
    level = _nvidia_level(device)
    return Capabilities(
        dialect="opencl",
        kind=_kind(device),
        vendor=platform_word(device),
        architecture=_architecture(device, vector_bytes),
        name=device.name.strip(),
        driver=device.driver_version,
        float64="cl_khr_fp64" in extensions,
        native_half="cl_khr_fp16" in extensions,
        sub_group_size=_sub_group_size(device, extensions),
        matrix_units=_matrix_units(device, level),
        async_copy=_async_copy(device, level),
        local_memory=local,
        local_memory_opt_in=local,
        local_memory_seen=largest_array(device, local) if level else 0,
        local_memory_dedicated=int(device.local_mem_type) == _LOCAL_IS_DEDICATED,
        max_workgroup=int(device.max_work_group_size),
        max_workgroup_shape=(int(shape[0]), int(shape[1]), int(shape[2])),
        compute_units=int(device.max_compute_units),
        vector_bytes=vector_bytes,
        vectorizes_work_items=cpu and platform_word(device) == "intel",
        lone_work_items=cpu,
        cache_line=int(device.global_mem_cacheline_size) or _FALLBACK_LINE,
        streaming_stores=cpu,
        compressed_bytes=partial(compressed_bytes, device) if cpu else 0,
        atomics64="cl_khr_int64_base_atomics" in extensions,
        float_atomics="cl_ext_float_atomics" in extensions or level >= _VOLTA,
        memory_orders=_memory_orders(device),
        forward_progress=cpu or level >= _VOLTA,
        streams=True,
        subnormals32=bool(rounding & _DENORM),
        rounded_division32=bool(rounding & _ROUNDED_DIVISION),
        global_memory=int(device.global_mem_size),
        max_allocation=int(device.max_mem_alloc_size),
        pointer_offsets=True,
        faults=_faults(device),
    )


def _matrix_units(device: cl.Device, level: int) -> frozenset[str]:
    if level == _HOPPER and has_warpgroups(device):
        return _UNITS | _WARPGROUPS
    return _UNITS if level >= _AMPERE else frozenset()


def _async_copy(device: cl.Device, level: int) -> frozenset[str]:
    kinds = {"vector"} if level >= _AMPERE else set()
    return frozenset(kinds | ({"bulk"} if level >= _HOPPER and copies_in_bulk(device) else set()))


def _kind(device: cl.Device) -> Literal["cpu", "gpu", "accelerator"]:
    if is_cpu(device):
        return "cpu"
    return "gpu" if device.type & cl.device_type.GPU else "accelerator"


def _faults(device: cl.Device) -> frozenset[faults.Fault]:
    match platform_word(device):
        case "intel" if is_cpu(device):
            return faults.INTEL_CPU
        case "pocl" if is_cpu(device):
            return faults.POCL
        case "nvidia":
            return faults.NVIDIA
        case _:
            return frozenset()


def _architecture(device: cl.Device, vector_bytes: int) -> str:
    if is_cpu(device):
        return f"{platform.machine().lower()}-{vector_bytes * 8}"
    major = _nvidia_level(device)
    if major:
        return f"sm_{major}{_query(device, 'compute_capability_minor_nv', 0)}"
    return "-".join(device.name.lower().split())


def _nvidia_level(device: cl.Device) -> int:
    """The major compute capability of NVIDIA's; 0 for others.

    From 7 (Volta) on, work-items that have started are promised to go on, and atomics have orders;
    from 8 (Ampere) on there are asynchronous copies and matrix units for doubles. All but the
    first are reached by inline PTX.
    """
    return int(_query(device, "compute_capability_major_nv", 0))


def _vector_bytes(device: cl.Device) -> int:
    if not is_cpu(device):
        return 16
    # PoCL's compiler keeps to 256-bit registers even where it reports 512.
    widest = 32 if platform_word(device) == "pocl" else _WIDEST_VECTOR
    return min(widest, max(16, 4 * int(device.native_vector_width_float)))


def _sub_group_size(device: cl.Device, extensions: frozenset[str]) -> int:
    """The size to compile for; 1 unless shuffles exist and the size is known beforehand.

    NVIDIA's compiler has them in its assembler, whatever extensions it lists.
    """
    if _nvidia_level(device) >= _VOLTA:
        return int(_query(device, "warp_size_nv", 32))
    if not all(word in extensions for word in _SUB_GROUP_WORDS):
        return 1
    if "cl_intel_required_subgroup_size" in extensions:
        return 16
    if "cl_khr_subgroups" in extensions or _query(device, "max_num_sub_groups", 0):
        return int(
            _query(device, "warp_size_nv", 0) or _query(device, "wavefront_width_amd", 0) or 1
        )
    return 1


def _memory_orders(device: cl.Device) -> Literal["relaxed", "acq_rel"]:
    offered = int(_query(device, "atomic_memory_capabilities", 0))
    both = offered & _ACQ_REL_ON_DEVICE == _ACQ_REL_ON_DEVICE
    return "acq_rel" if both or _nvidia_level(device) >= _VOLTA else "relaxed"


def _query(device: cl.Device, name: str, default: Any) -> Any:
    """An attribute that older drivers or other vendors' refuse."""
    try:
        return getattr(device, name)
    except (cl.Error, AttributeError):
        return default
