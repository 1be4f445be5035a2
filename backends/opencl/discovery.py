"""Which OpenCL devices there are, and why some are passed over."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache as once

import pyopencl as cl

from portable_backends.common import drivers


def find() -> tuple[cl.Device, ...]:
    """Every OpenCL device that kernels can be built for, in the order of the loader."""
    return tuple(d for d in _listed() if not _unusable(d))


def passed_over() -> list[tuple[cl.Device, str]]:
    """The devices that `find` passes over, and why."""
    return [(d, reason) for d in _listed() if (reason := _unusable(d))]


def without_compiler() -> tuple[cl.Device, ...]:
    """The devices that run what was compiled elsewhere alone."""
    return tuple(d for d in _listed() if not has_compiler(d))


def why_none(otherwise: str) -> str:
    """Why `find` passed over what there is; `otherwise` if there is nothing."""
    return "; ".join(reason for _, reason in passed_over()) or otherwise


@once
def _listed() -> tuple[cl.Device, ...]:
    """Every available OpenCL device of this machine, each once."""
    drivers.announce()
    devices: dict[int, cl.Device] = {}
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        return ()
    for platform in platforms:
        for device in _devices_of(platform):
            devices.setdefault(device.int_ptr, device)
    drivers.warn_of_hidden()
    return tuple(devices.values())


def _devices_of(platform: cl.Platform) -> Sequence[cl.Device]:
    try:
        return [d for d in platform.get_devices() if d.available]
    except cl.Error:
        return []


def has_compiler(device: cl.Device) -> bool:
    """Whether its driver compiles; some load what was compiled elsewhere alone."""
    return bool(device.compiler_available)


def _unusable(device: cl.Device) -> str:
    """Why kernels cannot be built for it; empty where they can.

    PoCL names a processor newer than its LLVM "generic", and then fails to build anything for it
    (https://github.com/pocl/pocl/issues/1049).
    """
    if not has_compiler(device):
        return (
            f"the OpenCL driver of {device.name} has no compiler; under opencl, by name, it "
            "loads packages of compiled kernels"
        )
    if "PoCL" in device.version and device.version.endswith("-generic"):
        return f"PoCL {device.driver_version} does not know this processor"
    return ""
