"""What OpenCL's errors mean."""

from __future__ import annotations

import struct

import pyopencl as cl

from portable.errors import LaunchError, OutOfMemoryError, PortableError

_OUT_OF_MEMORY = frozenset(
    {
        cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
        cl.status_code.OUT_OF_HOST_MEMORY,
        cl.status_code.INVALID_BUFFER_SIZE,
    }
)
_BAD_WORKGROUP = frozenset(
    {
        cl.status_code.INVALID_WORK_GROUP_SIZE,
        cl.status_code.INVALID_WORK_ITEM_SIZE,
        cl.status_code.INVALID_GLOBAL_WORK_SIZE,
    }
)


def launch_error(error: cl.Error | struct.error, what: str) -> PortableError:
    """The exception of ours that an OpenCL error means, `what` being what was tried."""
    if isinstance(error, struct.error):
        return LaunchError(f"{what}: {error}")
    code = error.code
    text = f"{what}: {cl.status_code.to_string(code, 'OpenCL error %d')}"  # type: ignore[operator]
    if code in _OUT_OF_MEMORY or isinstance(error, cl.MemoryError):
        return OutOfMemoryError(f"{text}; the device has no room for it")
    if code in _BAD_WORKGROUP:
        return LaunchError(f"{text}; use a smaller workgroup or ndrange")
    if code == cl.status_code.OUT_OF_RESOURCES:
        return LaunchError(f"{text}; use a smaller workgroup or less local memory")
    return LaunchError(text)
