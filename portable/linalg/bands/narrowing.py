"""A band made narrower by whole panels: their extents, and the storage that follows from them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Extents of panels, whoever works on them.

    Attributes
    ----------
    bandwidth, narrow : int
        Superdiagonals before and after.
    count : int
        Lines of a panel.
    """

    bandwidth: int
    narrow: int
    count: int

    @property
    def length(self) -> int:
        """Elements of a line: what the panel's lines reach beyond where they shall end."""
        return self.bandwidth - self.narrow + self.count

    @property
    def lag(self) -> int:
        """Hops between neighbouring sweeps."""
        return 1 if self.length + self.count <= self.bandwidth else 2

    @property
    @abstractmethod
    def edge(self) -> int:
        """Rows and columns of the tiles that the band is stored in."""

    @property
    def top(self) -> int:
        """Tiles of a column above the diagonal's."""
        return (self.bandwidth + self.length) // self.edge

    @property
    def pitch(self) -> int:
        """Tiles of a column."""
        return self.top + self.length // self.edge

    @property
    @abstractmethod
    def fits(self) -> bool:
        """Whether panels are whole parts of whoever works on them."""
