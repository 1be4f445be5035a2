"""The simulator as a device: kernels run and checked by `portable.sim`.

There are two, which differ in their arrays alone. ``simulator`` takes NumPy's, in place.
``simulator:arrays`` has those of `portable.array`, whose every function then runs under the checks;
`portable.xp` of either makes them.

Both also take the place of other devices: ``simulator:h200`` and ``simulator:h200-arrays`` have the
capabilities of that profile (`portable.backend.profiles`), by which operations plan as they would
there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from portable import registry, sim
from portable.backend import (
    ArrayView,
    Backend,
    Capabilities,
    Device,
    Executable,
    MemoryUse,
    Program,
    Unavailable,
    bytes_of,
    profiles,
)
from portable.dtypes import DType
from portable.errors import DeviceError, OutOfMemoryError, UnsupportedError
from portable.lang.ir.kernel import Kernel
from portable.profiling import timeline
from portable.system.isolation import with_room
from portable_backends.common.addresses import address_of
from portable_backends.common.devices import ArrayDevice, host_memory_use

if TYPE_CHECKING:
    from portable.array.array import Array

_SUB_GROUP_SIZE = "PORTABLE_SIM_SUB_GROUP_SIZE"
_SIZES = (1, 8, 16, 32, 64)


def _sub_group_size() -> int:
    text = os.environ.get(_SUB_GROUP_SIZE, "8")
    if text not in map(str, _SIZES):
        sizes = ", ".join(map(str, _SIZES))
        raise DeviceError(f"{_SUB_GROUP_SIZE} is {text!r}; it must be one of {sizes}")
    return int(text)


def _capabilities() -> Capabilities:
    return Capabilities(
        dialect="ir",
        kind="simulator",
        vendor="portable",
        architecture="ir",
        name="simulator of the kernel language",
        driver="1",
        float64=True,
        native_half=True,
        sub_group_size=_sub_group_size(),
        async_copy=frozenset({"vector", "bulk"}),
        local_memory=64 * 1024,
        local_memory_opt_in=64 * 1024,
        max_workgroup=1024,
        max_workgroup_shape=(1024, 1024, 1024),
        float_atomics=True,
        memory_orders="acq_rel",
        forward_progress=True,
        unified_memory=True,
    )


class _Simulated(Executable):
    """A kernel that the simulator runs, under the checks in force at each launch."""

    def __init__(self, kernel: Kernel, device: Device) -> None:
        self._simulation = sim.Simulation(kernel, device.capabilities)
        self._device = device

    def launch(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> None:
        """Run it to its end, or to the first fault."""
        kernel, recording = self._simulation.kernel, timeline.recording
        sizes = [n * items for n, items in zip(groups, kernel.workgroup, strict=True)]
        for dim, size in zip(kernel.ragged, arguments, strict=False):
            sizes[dim] = size
        given = arguments[len(kernel.ragged) :]
        entry = timeline.Entry(kernel.name, "launch", groups, kernel.workgroup)
        with nullcontext() if recording is None else recording.between(self._device, entry):
            with_room(self._simulation.run, groups, given, sizes=tuple(sizes))


class _Simulator(Device):
    """What both devices share: how kernels run."""

    backend = "simulator"
    interprets = True

    def __init__(self, name: str, capabilities: Capabilities | None) -> None:
        self.name = name
        self.capabilities = capabilities or _capabilities()

    def compile(self, program: Program) -> Executable:
        """Refused: there is no text to run."""
        raise UnsupportedError(
            f"the simulator runs kernels themselves, not their {program.dialect} source"
        )

    def interpret(self, kernel: Any) -> Executable:
        """Make a kernel ready to run."""
        return _Simulated(cast(Kernel, kernel), self)

    def view(self, array: Any) -> ArrayView:
        """Describe an array of either kind; its handle is the same memory as NumPy sees it."""
        host = _host(array)
        at, writable = address_of(host), host.flags.writeable
        return ArrayView(host.dtype, host.shape, host.strides, host, at, writable=writable)

    def synchronize(self) -> None:
        """Nothing to wait for: a launch returns when it is done."""

    def memory(self) -> MemoryUse:
        """Of the machine."""
        return host_memory_use()


class SimulatorDevice(_Simulator):
    """The simulator for NumPy arrays.

    Parameters
    ----------
    profile : str
        What it is called beside ``simulator``, if it takes the place of another device.
    capabilities : Capabilities, optional
        Those of that device.
    """

    words = frozenset({"simulator", "numpy"})

    def __init__(self, profile: str = "", capabilities: Capabilities | None = None) -> None:
        super().__init__(f"simulator:{profile}" if profile else "simulator", capabilities)
        self._for_arrays = ArraySimulatorDevice(profile, capabilities)

    def for_arrays(self) -> Device:
        """The simulator for arrays of `portable.array`."""
        return self._for_arrays

    def owns(self, array: object) -> bool:
        """Whether this is a NumPy array, or one of the simulator for arrays."""
        return isinstance(array, np.ndarray) or self._for_arrays.owns(array)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """A new array; a kernel that reads it before it is written is reported."""
        return _empty(shape, dtype)

    def from_numpy(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A contiguous copy."""
        return np.array(array, order="C")

    def to_numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """A contiguous copy."""
        return np.array(_host(array), order="C")

    def namespace(self) -> Any:
        """NumPy by the Array API's names."""
        import array_api_compat.numpy

        return array_api_compat.numpy


class ArraySimulatorDevice(_Simulator, ArrayDevice):
    """The simulator for arrays of `portable.array`, whose buffers are bytes in NumPy arrays.

    Parameters
    ----------
    profile, capabilities
        As of `SimulatorDevice`.
    """

    words = frozenset({"simulator", "arrays"})

    def __init__(self, profile: str = "", capabilities: Capabilities | None = None) -> None:
        from portable.array.array import Array

        name = f"simulator:{profile}-arrays" if profile else "simulator:arrays"
        super().__init__(name, capabilities)
        self._array = Array

    def view_code(self, array: Any) -> None:
        """None: launches take the arrays themselves."""

    def in_place(self, array: np.ndarray[Any, Any]) -> ArrayView:
        """A NumPy array as it is."""
        return self.view(array)

    def adopt(self, array: Any) -> Any:
        """A NumPy array as it is: kernels take it beside the device's own."""
        return array if isinstance(array, np.ndarray) else super().adopt(array)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """A new array; a kernel that reads it before it is written is reported."""
        bytes_of(shape, dtype.itemsize)
        memory = _empty((max(prod(shape), 1),), dtype)
        return self._array.new(self, memory.view(np.uint8), dtype, shape)

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Array:
        """A contiguous copy."""
        from portable.dtypes import dtype

        with timeline.copying(self, "to device", array.nbytes):
            memory = np.array(array, order="C").reshape(-1)
        if not memory.size:
            memory = np.zeros(1, array.dtype)
        return self._array.new(self, memory.view(np.uint8), dtype(array.dtype), array.shape)

    def to_numpy(self, array: Array) -> np.ndarray[Any, Any]:
        """A contiguous copy."""
        with timeline.copying(self, "from device", array.nbytes):
            return np.array(_host(array), order="C")

    def shared(self, array: Array) -> np.ndarray[Any, Any]:
        """The elements in place."""
        return _host(array)


def _empty(shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    bytes_of(shape, dtype.itemsize)
    try:
        return sim.empty(shape, dtype)
    except MemoryError as error:
        raise OutOfMemoryError(f"no room for {shape} of {dtype}") from error


def _host(array: Any) -> np.ndarray[Any, Any]:
    """The elements in place."""
    if isinstance(array, np.ndarray):
        return array
    kind = array.dtype.numpy
    if not array.size:
        return np.empty(array.shape, kind)
    return np.ndarray(array.shape, kind, array.buffer, array.offset, array.strides)


def _profiled(name: str) -> Device:
    return SimulatorDevice(name, profiles.load(name).capabilities)


def _for_arrays_of(name: str) -> Device:
    return registry.device(f"simulator:{name}").for_arrays()


class SimulatorBackend(Backend):
    """Always there."""

    name = "simulator"

    def devices(self) -> Sequence[Device]:
        """The simulator for NumPy arrays, and for those of `portable.array`."""
        device = SimulatorDevice()
        return device, device.for_arrays()

    def further(self) -> Mapping[str, Callable[[], Device]]:
        """One for each profile, and its like for arrays of `portable.array`."""
        devices: dict[str, Callable[[], Device]] = {}
        for name in profiles.names():
            devices[name] = partial(_profiled, name)
            devices[f"{name}-arrays"] = partial(_for_arrays_of, name)
        return devices

    def unavailable(self) -> Unavailable | None:
        """It needs nothing but NumPy."""
        return None

    def array_types(self) -> tuple[str, ...]:
        """NumPy's, and those of `portable.array`."""
        return ("numpy", "portable")
