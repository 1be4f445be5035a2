"""Fragments in private arrays, which are loaded and mapped element by element."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.nodes import both, constant
from portable.lang.ir.types import Array, Fragment
from portable.lang.tiles.regions import inside, place
from portable.lang.tiles.strategy import Strategy
from portable.lang.tiles.work import Code, stored

Element = tuple[e.Expression, e.Expression, tuple[e.Expression, ...], e.Expression | None]
"""Its row, its column, its index in the array that holds it, and whether it exists."""


class ByElements(Strategy):
    """A strategy that keeps fragments in private arrays, whose elements it can go through."""

    @abstractmethod
    def _array(self, fragment: Fragment) -> Array:
        """Where a fragment is held."""

    @abstractmethod
    def _each(self, code: Code, fragment: Fragment) -> AbstractContextManager[Element]:
        """Row, column, index of an element and whether it exists, inside the loops over all."""

    def _first(self, fragment: Fragment) -> e.Expression | None:
        """Whether this work-item is the first of those that hold the same elements."""
        return None

    def load(self, x: s.FragmentLoad) -> s.Block:
        """Element by element."""
        code, array = self.work.code(x.loc), self._array(x.fragment)
        with self._each(code, x.fragment) as (row, column, at, position):
            index = place(x.source, row, column)
            condition = both(position, inside(x.source, index))
            with code.when(condition):
                value = code.load(x.source.array, index, x.source.array.dtype.register)
                code.store(array, at, value)
            if condition is not None:
                with code.otherwise():
                    code.store(array, at, constant(0, array.dtype))
        return code.block

    def elements(self, x: s.ForElements) -> s.Block:
        """All that is held; of an operand's element, held several times, one where it is read."""
        code, array = self.work.code(x.loc), self._array(x.fragment)
        with self._each(code, x.fragment) as (row, column, at, position):
            first = None if x.writes else self._first(x.fragment)
            with code.when(both(first, position)):
                code.emit(s.Let(x.row, row, x.loc), s.Let(x.column, column, x.loc))
                code.assign(x.value, code.load(array, at, x.value.type))
                for partner, other in zip(x.partners, x.others, strict=True):
                    element = code.load(self._array(partner), at, other.type)
                    code.assign(other, element)
                code.emit(*x.body)
                if x.writes:
                    code.store(array, at, stored(x.value, x.fragment))
        return code.block
