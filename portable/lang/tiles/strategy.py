"""The interface of a strategy: one way to hold fragments on a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

from portable.lang.ir import statements as s
from portable.lang.ir.pipeline import Pipeline, in_rounds
from portable.lang.tiles.parts import Part
from portable.lang.tiles.work import Work


class Strategy(ABC):
    """Holds the fragments of one part of a kernel in one way.

    The driver makes one for each part, asks it to `declare`, then replaces each statement about the
    part's fragments by what the method of its name returns. Every block of these belongs to a
    work-item of the scope, and all of them run it together.

    Parameters
    ----------
    work : Work
        The kernel in progress: new names, arrays, variables, replaced arrays.
    part : Part
        The fragments, their multiplications and operand tiles.
    """

    early: ClassVar[bool] = False
    """Whether multiplications run on their own, and had better start before copies beside them."""

    def __init__(self, work: Work, part: Part) -> None:
        self.work = work
        self.part = part

    @classmethod
    @abstractmethod
    def suits(cls, work: Work, part: Part) -> bool:
        """Whether this strategy can hold the part's fragments on the device."""

    begins: ClassVar[bool] = False
    """Whether its multiplications begin anew by themselves where they are to."""

    @abstractmethod
    def declare(self) -> s.Block:
        """Adds the storage and chooses the operand tiles' layouts (`Work.replace`, `Work.retire`).

        The statements returned go to the top of the kernel.
        """

    @abstractmethod
    def fill(self, x: s.FragmentFill) -> s.Block:
        """Sets every element."""

    @abstractmethod
    def load(self, x: s.FragmentLoad) -> s.Block:
        """Reads a region; zeros where it lies outside a global array."""

    @abstractmethod
    def store(self, x: s.FragmentStore) -> s.Block:
        """Writes a region, but for what lies outside a global array."""

    @abstractmethod
    def multiply(self, x: s.Multiply) -> s.Block:
        """Adds a product to an accumulator."""

    @abstractmethod
    def elements(self, x: s.ForElements) -> s.Block:
        """Runs a body, already without fragments, for each element that this work-item holds."""

    def pipeline(self, x: Pipeline) -> s.Block:
        """What a pipeline becomes; what is left in it to lower is lowered then."""
        return (in_rounds(x, early=self.early),)

    def loop_over_tiles(self, x: s.For) -> s.Block | None:
        """The same for a loop whose body holds a pipeline; None leaves it alone."""
        return None

    def copy(self, x: s.CopyTile) -> s.Block | None:
        """A copy into a tile that this strategy retired; None for copies it leaves alone."""
        return None

    @classmethod
    def finish(cls, body: s.Block, made: Sequence[Self]) -> s.Block:
        """The kernel's whole lowered body, with what those `made` of this kind need at barriers."""
        return body
