"""Turning statements into steps: functions that change the state of a workgroup.

A step is run by calling it with the workgroup. One that `pauses` is a generator function: it
yields a `Pause` where another workgroup may go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from portable.errors import Location, UnsupportedError
from portable.lang.ir import statements as s
from portable.lang.ir.expressions import Const, Expression
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array
from portable.sim.evaluation import Evaluate, evaluator
from portable.sim.launch import Site
from portable.sim.workgroup import Running, Workgroup

Runs = Callable[[Workgroup], Running]


@dataclass(frozen=True, slots=True)
class Plain:
    """A step that runs to its end."""

    run: Callable[[Workgroup], None]
    pauses = False


@dataclass(frozen=True, slots=True)
class Pauses:
    """A step during which other workgroups may run."""

    run: Callable[[Workgroup], Running]
    pauses = True


Step = Plain | Pauses


class Builder:
    """Builds the steps of one kernel.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    size : int
        Work-items of a workgroup.
    sites : list of Site
        Every statement that reports may name, by number.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        x, y, z = kernel.workgroup
        self.size = x * y * z
        self.sites: list[Site] = []

    def site(self, location: Location, array: Array | None = None) -> Site:
        """A new site."""
        site = Site(len(self.sites), location, array)
        self.sites.append(site)
        return site

    def expression(self, x: Expression, site: Site) -> Evaluate:
        """What evaluates an expression at a site."""
        return evaluator(x, self.size, site)

    def constant(self, x: Expression) -> int:
        """The number that an expression is, which must be a constant."""
        assert isinstance(x, Const)
        return int(x.value)

    def expressions(self, xs: tuple[Any, ...], site: Site) -> tuple[Evaluate, ...]:
        """What evaluates several."""
        return tuple(evaluator(x, self.size, site) for x in xs)

    def block(self, block: s.Block) -> Runs:
        """What runs a block until its end, or until no work-item is left in it."""
        steps = tuple((made.pauses, made.run) for made in (step(x, self) for x in block))

        def run(w: Workgroup) -> Running:
            for pauses, one in steps:
                if pauses:
                    yield from one(w)  # type: ignore[misc]
                else:
                    one(w)
                if not w.active.count:
                    return

        return run


@singledispatch
def step(statement: s.Statement, b: Builder) -> Step:
    """The step that a statement becomes; each kind is registered by the module that runs it."""
    raise UnsupportedError(
        f"{statement.loc}: {type(statement).__name__} belongs to one device and is not simulated; "
        "simulate the kernel before it is lowered for a device"
    )
