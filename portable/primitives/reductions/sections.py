"""How the rows of an array are cut into sections, and which of them a work-item does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.primitives.maps.elementwise_kernel import product_of, unravelled


@dataclass(frozen=True)
class Section:
    """A part of a row, which is all of the last axis.

    Attributes
    ----------
    outer : tuple of int
        The index of the row.
    number : int
        Which of the row's sections it is.
    first, stop : int
        Where it begins and ends.
    inside : bool
        Whether there is such a row.
    row : int
        How many rows come before.
    size : int
        Elements of a section at most; a constant.
    """

    outer: Any
    number: Any
    first: Any
    stop: Any
    inside: Any
    row: Any
    size: Any


@dataclass(frozen=True)
class Sections:
    """How workgroups share the sections of rows; a constant of kernels.

    Attributes
    ----------
    size : int
        Elements of a section.
    width, tall : int
        Work-items of a workgroup along a row, and of how many rows it does a section.
    one : bool
        Whether a row is a single section.
    rows : int
        Rows that a work-item does one after the other, where it has short ones to itself.
    """

    size: int
    width: int = 1
    tall: int = 1
    one: bool = False
    rows: int = 1

    def own(self, lead: tuple[kl.Scalar, ...], length: kl.Scalar, turn: kl.Scalar = 0) -> Any:
        """The section of this work-item, of rows of a length counted by the extents `lead`.

        Of several `rows` it is the one whose `turn` it is.
        """
        group = kl.group_id(0)
        sections = 1 if self.one else kl.cdiv(length, self.size)
        s = 0 if self.one else group % sections
        row = group // sections * self.tall + kl.local_id(0) // self.width
        if self.rows > 1:
            row = row * self.rows + turn
        first = s * self.size
        stop = kl.minimum(first + self.size, length)
        return Section(
            unravelled(row, lead), s, first, stop, row < product_of(lead), row, self.size
        )


@function
def section_at(x: kl.Array, SIZE: int, number: kl.Scalar) -> Any:
    """The section of so many elements that comes `number`-th, each row's one after the other."""
    *lead, length = x.shape
    sections = kl.cdiv(length, SIZE)
    row, s = number // sections, number % sections
    first = s * SIZE
    stop = kl.minimum(first + SIZE, length)
    return Section(unravelled(row, lead), s, first, stop, row < product_of(lead), row, SIZE)
