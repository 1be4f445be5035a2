"""What devices of several families have in common: programs, limits, the host's memory, DLPack."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from portable.backend import (
    ArrayView,
    Capabilities,
    Device,
    MemoryUse,
    Program,
    ViewCode,
)
from portable.errors import LaunchError
from portable.interchange.tensors import is_tensor, place_of

if TYPE_CHECKING:
    from portable.array.array import Array


class ArrayDevice(Device):
    """A device whose arrays are those of `portable.array`, a class that its constructor imports."""

    _array: type[Array]

    def owns(self, array: object) -> bool:
        """Whether this is an array in this device's memory."""
        return isinstance(array, self._array) and array.device is self

    def view(self, array: Any) -> ArrayView:
        """What the array knows of itself."""
        view: ArrayView = array.described
        return view

    def view_code(self, array: Any) -> ViewCode | None:
        """How compiled code sees one of this device's arrays."""
        return ViewCode(
            self._array,
            same="{x}.device is device"
            " and ({x}_view := {x}._view or {x}.described)[8] == {x}_layout",
            handle="{x}_view[3]",
            address="{x}_view[4]",
            offset="{x}_view[5]",
            owner="{x}_view[6]",
            names={"device": self},
        )

    def namespace(self) -> Any:
        """The one that is built from the kernel language."""
        from portable import array

        return array

    def creation_arguments(self) -> dict[str, Any]:
        """Name this device."""
        return {"device": self}


# Refuses programs that a device cannot run, before its driver refuses them less clearly.


def check(program: Program, capabilities: Capabilities) -> None:
    """Refuse a workgroup or local memory larger than the device has.

    Raises
    ------
    LaunchError
        Saying what was asked for and what there is.
    """
    items = math.prod(program.workgroup)
    most, shape = capabilities.max_workgroup, capabilities.max_workgroup_shape
    if items > most or any(w > m for w, m in zip(program.workgroup, shape, strict=True)):
        raise LaunchError(
            f"workgroup {program.workgroup} has {items} work-items; {capabilities.name} takes at "
            f"most {most} in all and {shape} along each dimension"
        )
    if program.shared_bytes > capabilities.local_memory_most:
        raise LaunchError(
            f"{program.entry} needs {program.shared_bytes} bytes of local memory; "
            f"{capabilities.name} has {capabilities.local_memory_most} per workgroup"
        )


# Other libraries' arrays, by the DLPack protocol.


def device_type(array: Any) -> int:
    """DLPack's number for the kind of memory that `array` lies in; 0 if it does not say."""
    if is_tensor(array):
        return (place_of(array) or (0, 0))[0]
    ask = getattr(array, "__dlpack_device__", None)
    return int(ask()[0]) if ask is not None else 0


def to_numpy_view(array: Any) -> np.ndarray[Any, Any]:
    """A NumPy array over the same host memory, read-only where the producer says so.

    NumPy takes memory described by the protocol's first version, which cannot say so, for
    read-only. PyTorch's tensors are always writable.
    """
    if type(array).__module__.partition(".")[0] == "torch":
        return array.numpy()  # type: ignore[no-any-return]
    return np.from_dlpack(array)


# How the host's memory is used, which processors and the simulator work in.


def host_memory_use() -> MemoryUse:
    """Of the machine; NumPy keeps no pool and no count."""
    return MemoryUse(None, None, _bytes("SC_AVPHYS_PAGES"), _bytes("SC_PHYS_PAGES"))


def _bytes(name: str) -> int | None:
    """Of so many pages, where the system says."""
    if not hasattr(os, "sysconf") or name not in os.sysconf_names:
        return None
    return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
