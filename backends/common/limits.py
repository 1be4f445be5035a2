"""Refuses programs that a device cannot run, before its driver refuses them less clearly."""

from __future__ import annotations

import math

from portable.backend import Capabilities, Program
from portable.errors import LaunchError


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
