"""The simulator as a device: NumPy arrays, and kernels run and checked by `portable.sim`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from portable import sim
from portable.backend import (
    ArrayView,
    Backend,
    Capabilities,
    Device,
    Executable,
    Program,
    Timer,
    Unavailable,
)
from portable.dtypes import DType
from portable.errors import DeviceError, OutOfMemoryError, UnsupportedError
from portable.lang.ir.kernel import Kernel

__all__ = ["SimulatorBackend", "SimulatorDevice"]

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

    def __init__(self, kernel: Kernel) -> None:
        self._simulation = sim.Simulation(kernel)

    def launch(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> None:
        """Run it to its end, or to the first fault."""
        self._simulation.run(groups, arguments)


class SimulatorDevice(Device):
    """The simulator."""

    name = "simulator"
    backend = "simulator"
    words = frozenset({"simulator", "numpy"})

    def __init__(self) -> None:
        self.capabilities = _capabilities()

    def compile(self, program: Program) -> Executable:
        """Refused: there is no text to run."""
        raise UnsupportedError(
            f"the simulator runs kernels themselves, not their {program.dialect} source"
        )

    def interpret(self, kernel: Any) -> Executable:
        """Make a kernel ready to run."""
        return _Simulated(cast(Kernel, kernel))

    def owns(self, array: object) -> bool:
        """Whether this is a NumPy array."""
        return isinstance(array, np.ndarray)

    def view(self, array: Any) -> ArrayView:
        """Describe a NumPy array; it is its own handle."""
        return ArrayView(
            array.dtype,
            array.shape,
            array.strides,
            array,
            array.__array_interface__["data"][0],
            writable=array.flags.writeable,
        )

    def empty(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """A new array; a kernel that reads it before it is written is reported."""
        try:
            return sim.empty(shape, dtype)
        except MemoryError as error:
            raise OutOfMemoryError(f"no room for {shape} of {dtype}") from error

    def from_numpy(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A contiguous copy."""
        return np.array(array, order="C")

    def to_numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """A contiguous copy."""
        return np.array(array, order="C")

    def synchronize(self) -> None:
        """Nothing to wait for: a launch returns when it is done."""

    def namespace(self) -> Any:
        """NumPy by the Array API's names."""
        import array_api_compat.numpy

        return array_api_compat.numpy

    def timer(self) -> Timer:
        """The host's clock."""
        from portable_backends.host_timer import HostTimer

        return HostTimer(self.synchronize)


class SimulatorBackend(Backend):
    """One device, always there."""

    name = "simulator"

    def devices(self) -> Sequence[Device]:
        """The simulator."""
        return (SimulatorDevice(),)

    def unavailable(self) -> Unavailable | None:
        """It needs nothing but NumPy."""
        return None

    def array_types(self) -> tuple[str, ...]:
        """NumPy's."""
        return ("numpy",)
