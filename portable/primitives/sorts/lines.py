"""Rows of elements that are sorted, each with the place where it was at first."""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl


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
    shift : int or None
        Where the element lies that is asked for as number 0; None for 0.
    """

    elements: Any
    places: Any
    outer: Any = ()
    shift: Any = None

    def row(self, outer: tuple[kl.Scalar, ...]) -> Any:
        """One of the rows."""
        return Line(self.elements, self.places, outer)

    def shifted(self, by: kl.Scalar) -> Any:
        """The only row, from elsewhere on."""
        return Line(self.elements, self.places, (), by)

    def at(self, i: kl.Scalar) -> Any:
        """The index of an element."""
        return (*self.outer, i if self.shift is None else i + self.shift)

    def some(self, i: kl.Scalar, lanes: int = 1) -> Any:
        """Neighbouring elements."""
        return kl.vload(self.elements, *self.at(i), lanes=lanes)

    def was(self, i: kl.Scalar, lanes: int = 1) -> Any:
        """Where elements were."""
        if self.places is not None:
            return kl.vload(self.places, *self.at(i), lanes=lanes)
        return i + kl.vector(*(lane for lane in kl.static_range(lanes))) if lanes > 1 else i

    def put(self, i: kl.Scalar, elements: kl.Scalar, was: kl.Scalar) -> None:
        """Writes an element or neighbours, and where they were."""
        if self.elements is not None:
            kl.vstore(self.elements, *self.at(i), elements)
        if self.places is not None:
            kl.vstore(self.places, *self.at(i), kl.cast(was, self.places.dtype))

    def put_chosen(
        self, i: kl.Scalar, elements: kl.Scalar, was: kl.Scalar, mask: kl.Scalar
    ) -> None:
        """Writes the chosen ones of neighbours, and over as many places behind as are left out."""
        if self.elements is not None:
            kl.vstore(self.elements, *self.at(i), kl.compress(elements, mask))
        if self.places is not None:
            chosen = kl.compress(kl.cast(was, self.places.dtype), mask)
            kl.vstore(self.places, *self.at(i), chosen)

    def copy(
        self, to: kl.Scalar, source: Line, first: kl.Scalar, stop: kl.Scalar, lanes: int
    ) -> None:
        """Writes a range of another line from `to` on, up to so many elements at a time."""
        for i, together in kl.vector_range(first, stop, lanes=lanes):
            self.put(to + (i - first), source.some(i, together), source.was(i, together))
