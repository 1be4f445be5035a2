"""Running a kernel in the simulator."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np

from portable.backend import Capabilities
from portable.errors import LaunchError
from portable.lang.ir.kernel import Kernel
from portable.lang.passes.loops import end_ranges
from portable.lang.tiles import lower
from portable.sim import (
    access,
    atomics,
    binding,
    collective,
    control,
    fragments,
    matrix_units,
    mbarriers,
    transfers,
    warpgroups,
)
from portable.sim.launch import Launch, Survey
from portable.sim.scheduler import run_workgroups
from portable.sim.settings import Settings, current
from portable.sim.steps import Builder
from portable.sim.strands import Running
from portable.sim.workgroup import Workgroup

STATEMENTS = (
    access,
    atomics,
    transfers,
    collective,
    control,
    fragments,
    matrix_units,
    mbarriers,
    transfers,
    warpgroups,
)
"""The modules that register how statements run."""


class Simulation:
    """A kernel ready to be simulated; safe under threads.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    target : Capabilities, optional
        The device that it would run on: it is lowered as for it first. None, and devices that run
        the IR, for the kernel as it stands.

    Attributes
    ----------
    kernel : Kernel
        What runs: the kernel, lowered if it was.
    """

    def __init__(self, kernel: Kernel, target: Capabilities | None = None) -> None:
        if target is not None and target.dialect != "ir":
            kernel = lower(kernel, target)
        kernel = end_ranges(kernel)
        self.kernel: Final = kernel
        builder = Builder(kernel)
        self._survey = Survey(kernel)
        self._body = builder.block(kernel.body)
        self._places = [site.location for site in builder.sites]

    def _whole(self, w: Workgroup) -> Running:
        yield from self._body(w)
        transfers.finish(w)

    def run(
        self,
        groups: tuple[int, int, int],
        arguments: Sequence[Any],
        *,
        settings: Settings | None = None,
        uninitialised: Collection[str] = (),
        sizes: tuple[int, ...] = (),
    ) -> None:
        """Run it; parameters are those of `run`, and `sizes` the work-items along each dimension.

        By default these are those of whole workgroups.
        """
        if min(groups) < 1:
            raise LaunchError(f"a launch needs workgroups along each dimension, not {groups}")
        how = settings or current()
        launch = Launch(self.kernel, self._survey, self._places, groups, how, sizes)
        with np.errstate(all="ignore"):
            bound = binding.bind(launch, arguments, frozenset(uninitialised))
            try:
                run_workgroups(launch, bound, self._whole)
            finally:
                binding.keep_written(bound)


def run(
    kernel: Kernel,
    groups: tuple[int, int, int],
    arguments: Sequence[Any],
    *,
    settings: Settings | None = None,
    uninitialised: Collection[str] = (),
    target: Capabilities | None = None,
) -> None:
    """Run a kernel on NumPy arrays and report what is wrong with it.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    groups : (int, int, int)
        Workgroups along each dimension.
    arguments : sequence
        One per parameter: a NumPy array or a number. Arrays may overlap.
    settings : Settings, optional
        What to check and how to schedule; by default those in force (see `checks`).
    uninitialised : collection of str
        Names of array parameters whose contents count as never written.
    target : Capabilities, optional
        As of `Simulation`.

    Raises
    ------
    SimulationError
        One of the classes in `portable.sim.errors`, at the first fault.
    """
    Simulation(kernel, target).run(
        groups, arguments, settings=settings, uninitialised=uninitialised
    )
