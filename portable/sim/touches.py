"""Accesses to memory as records and reports see them: the statement, the place, who it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from portable.errors import Location
from portable.lang.ir.types import Array
from portable.sim.group import Group
from portable.sim.values import Value


@dataclass(frozen=True, slots=True)
class Site:
    """A statement of the kernel, and the array it accesses if any."""

    number: int
    location: Location
    array: Array | None = None


class Touch(Protocol):
    """Pieces of memory that work-items access in one statement, as of `portable.sim.memory.Access`.

    Attributes
    ----------
    site : Site
        The statement.
    items : numpy.ndarray
        Which work-item, or other thread of the workgroup, accesses each component.
    together : bool
        Whether the workgroup shares the accesses out among its work-items in an unknown way.
    """

    site: Site
    items: Value
    together: bool

    @property
    def array(self) -> Array:
        """The kernel's array."""

    @property
    def granules(self) -> Value:
        """The granules of the memory's shadow that are accessed."""

    def threads(self, w: Group) -> Value:
        """The thread that accesses each granule."""

    def element(self, position: int) -> tuple[int, ...]:
        """The index of the component that a position among the granules belongs to."""

    def item(self, position: int) -> int:
        """Who accesses the granule at a position."""
