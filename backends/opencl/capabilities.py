"""What an OpenCL device says of itself, as `Capabilities` and selector words.

Two things no device says of itself, and no document promises. A kernel finds them out, once for
each driver, in a process of its own, which may be ended by what the driver does not know; the
answer is kept in the cache of compiled programs. One is whether NVIDIA's OpenCL has Hopper's
warpgroup instructions, in a binary that its compiler did not make (`covered`); the other how long
vectors may be whose chosen lanes a processor's compiler brings to the front
(`portable.lang.emit.avx512`).
"""

from __future__ import annotations

import platform
from functools import cache as kept_in_process
from functools import partial
from typing import Any, Final, Literal

import numpy as np
import pyopencl as cl

from portable.backend import Capabilities
from portable.backend.capabilities import INTEL_CPU, NVIDIA, POCL, Fault
from portable.dtypes import float32, float64, int32
from portable.lang.emit.avx512 import compress_definition, count_definition
from portable.lang.emit.opencl import COVER
from portable.lang.ir.types import Vector
from portable_backends.common.isolated_compiler import IsolatedCompiler
from portable_backends.opencl.boxes import copies_boxes
from portable_backends.opencl.probes import (
    ITEMS,
    answer,
    asked_isolated,
    copies_in_bulk,
    largest_array,
    output_of,
    remembered,
)

_WIDEST: Final = 64
_OPTIONS: Final = ["-cl-std=CL3.0", "-w"]
_BODY: Final = """
__kernel void probe(__global const uint *x, __global uint *out)
{
    const int16 number = convert_int16(vload16(0, x)), m = number * 5 % 7 < 3;
    const float16 v = convert_float16(number + 1);
    vstore16(convert_uint16(choose_singles(v, m)), 0, out);
    vstore8(convert_uint8(choose_doubles(convert_double8(v.lo), m.lo)), 2, out);
    vstore8(convert_uint8(choose_integers(convert_int8(v.lo), m.lo)), 3, out);
    out[32] = how_many(m);
}
"""


def source() -> str:
    """A kernel that compresses long and short vectors, of floats and integers, and counts."""
    return "\n".join(
        [
            compress_definition("choose_singles", "float16", Vector(float32, 16)),
            compress_definition("choose_doubles", "double8", Vector(float64, 8)),
            compress_definition("choose_integers", "int8", Vector(int32, 8)),
            count_definition("how_many", 16),
            _BODY,
        ]
    )


@kept_in_process
def compressed_bytes(device: cl.Device) -> int:
    """As `Capabilities` has it, of a processor.

    Parameters
    ----------
    device : pyopencl.Device
        Its driver.
    """
    if 4 * int(device.native_vector_width_float) < _WIDEST:
        return 0
    text = source()
    return remembered(device, text, lambda: _WIDEST if compresses(device, text) else 0, 0)


def compresses(device: cl.Device, source: str) -> bool:
    """Whether a kernel like this one is compiled, and chooses the lanes that it should.

    Raises
    ------
    pyopencl.Error
        If there is no room for a context, or a kernel that was compiled cannot be run.
    """
    if not IsolatedCompiler(device).takes(source, _OPTIONS):
        return False
    out = output_of(cl.Context([device]), source, 1, _OPTIONS)
    x, chosen = np.arange(1, 17, dtype=np.uint32), np.arange(16) * 5 % 7 < 3
    short = _in_front(x[:8], chosen[:8])
    expected = np.concatenate([_in_front(x, chosen), short, short, [chosen.sum()]])
    return out is not None and bool((out[: expected.size] == expected).all())


def _in_front(x: np.ndarray[Any, Any], chosen: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What `kl.compress` makes of it."""
    return np.concatenate([x[chosen], x[~chosen] * 0])


_ONES: Final = 0x3C003C00
_SUM: Final = 16
"""Of the products of a row of ones and a column of ones."""

_SOURCE: Final = f"""
#define PTX __asm__ volatile
__kernel __attribute__((reqd_work_group_size({ITEMS}, 1, 1)))
void probe(__global const uint *x, __global uint *out) {{
    __local uint ones[2048] __attribute__((aligned(1024)));
    const uint item = get_local_id(0), at = (uint)(size_t)ones;
    const ulong matrix = (ulong)((at & 0x3ffffu) >> 4) | (8ul << 16) | (16ul << 32);
    for (uint i = item; i < 2048; i += {ITEMS}) ones[i] = {_ONES};
    PTX("fence.proxy.async.shared::cta;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    float a = x[item], b = a, c = a, d = a;
    PTX("{COVER}wgmma.fence.sync.aligned;" ::: "memory");
    PTX("{COVER}wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%0, %1, %2, %3}}, %4, %4, "
        "1, 1, 1, 0, 0;" : "+f"(a), "+f"(b), "+f"(c), "+f"(d) : "l"(matrix));
    PTX("{COVER}wgmma.commit_group.sync.aligned;" ::: "memory");
    PTX("{COVER}wgmma.wait_group.sync.aligned 0;" ::: "memory");
    PTX("" : "+f"(a), "+f"(b), "+f"(c), "+f"(d) :: "memory");
    out[item] = (uint)(a + b + c + d);
}}
"""
"""Adds a product of ones to its own number in each of the four registers of a work-item."""


@kept_in_process
def has_warpgroups(device: cl.Device) -> bool:
    """Whether a device's driver takes programs with warpgroup instructions, and they multiply."""
    return bool(remembered(device, _SOURCE, lambda: asked_isolated(__name__, device), 0))


def multiplies(device: cl.Device) -> bool:
    """The same, found out now and in this process."""
    out = output_of(cl.Context([device]), _SOURCE)
    return out is not None and bool((out == 4 * (np.arange(ITEMS) + _SUM)).all())


if __name__ == "__main__":
    answer(multiplies)


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
_FAULTS: Final[dict[tuple[str, str], frozenset[Fault]]] = {
    ("intel", "cpu"): INTEL_CPU,
    ("pocl", "cpu"): POCL,
    ("nvidia", "gpu"): NVIDIA,
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
_WARPGROUPS = frozenset({"wgmma.f16", "wgmma.bf16", "wgmma.tf32"})


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
        single_work_items=cpu,
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
        faults=_FAULTS.get((platform_word(device), _kind(device)), frozenset()),
    )


def _matrix_units(device: cl.Device, level: int) -> frozenset[str]:
    """With warpgroups' where a copy engine fills their tiles: warps that do take twice as long."""
    if level == _HOPPER and copies_boxes(device) and has_warpgroups(device):
        return _UNITS | _WARPGROUPS
    return _UNITS if level >= _AMPERE else frozenset()


def _async_copy(device: cl.Device, level: int) -> frozenset[str]:
    hopper, kinds = level >= _HOPPER, {"vector"} if level >= _AMPERE else set()
    asked = (("bulk", copies_in_bulk), ("tensor", copies_boxes))
    return frozenset(kinds | {kind for kind, copies in asked if hopper and copies(device)})


def _kind(device: cl.Device) -> Literal["cpu", "gpu", "accelerator"]:
    if is_cpu(device):
        return "cpu"
    return "gpu" if device.type & cl.device_type.GPU else "accelerator"


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
