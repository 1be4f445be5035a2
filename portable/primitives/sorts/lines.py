"""Rows of elements that are sorted, each with the place where it was at first."""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl

__all__ = ["Line"]


class Line(NamedTuple):
    """Elements along the last axis, and where each was at first.

    Attributes
    ----------
    elements : array or None
        None where they are not written.
    places : array or None
        None where each is in its place, or nobody asks.
    outer : tuple of int
        The index of the row.
    """

    elements: Any
    places: Any
    outer: Any = ()

    def row(self, outer: Any) -> Any:
        """One of the rows."""
        return Line(self.elements, self.places, outer)

    def some(self, i: Any, lanes: Any = 1) -> Any:
        """Neighbouring elements."""
        return kl.vload(self.elements, *self.outer, i, lanes=lanes)

    def was(self, i: Any) -> Any:
        """Where an element was."""
        return i if self.places is None else self.places[*self.outer, i]

    def put(self, i: Any, element: Any, was: Any) -> None:
        """Writes an element, and where it was."""
        if self.elements is not None:
            self.elements[*self.outer, i] = element
        if self.places is not None:
            self.places[*self.outer, i] = kl.cast(was, self.places.dtype)
