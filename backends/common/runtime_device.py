"""What devices have in common whose kernels an OpenCL driver compiles and runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portable.backend import Device, Executable
from portable.backend.program import Program

if TYPE_CHECKING:
    from portable_backends.opencl.runtime import Runtime


class RuntimeDevice(Device):
    """A device that compiles through a `Runtime`, which its constructor makes."""

    _runtime: Runtime

    def compile(self, program: Program) -> Executable:
        """Compile with the device's driver."""
        return self._runtime.compile(program)

    def program_facts(self) -> dict[str, str]:
        """Drivers take their own binaries alone."""
        return self._runtime.facts()

    def export(self, program: Program) -> bytes:
        """The driver's binary."""
        return self._runtime.export(program)

    def load(self, program: Program, code: bytes) -> Executable:
        """Load the driver's binary."""
        return self._runtime.load(program, code)
