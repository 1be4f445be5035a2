"""Layouts of matrices in registers: which element a register of a lane holds.

A layout is a function from the numbers of a lane and of a register to a row and a column. Each
number is written in digits, the lowest first, and each digit moves so many rows and columns a unit,
as the nested shapes and strides of CuTe's thread-value layouts do. Layouts are composed: an
instruction's is repeated down and across for the share of a warp, and turned for the other operand.
Filling, loading, storing and mapping follow from it (`accumulators`, `operands`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

from portable.lang.ir import expressions as e
from portable.lang.tiles.work import add, mul, number

Offset = tuple[int, int]
"""Rows and columns."""

Digit = tuple[int, Offset]
"""How many values it has, and how far each moves."""

MEMBERS: Final = 4
"""Lanes of a group: a lane's lower digit is its number among them, the higher one its group's."""


@dataclass(frozen=True, slots=True)
class RegisterLayout:
    """A layout.

    Attributes
    ----------
    member, group : (int, int)
        What the digits of a lane's number move.
    registers : tuple of Digit
        Of a register's number; where several elements are packed into one, theirs come first.
    """

    member: Offset
    group: Offset
    registers: tuple[Digit, ...]

    @property
    def count(self) -> int:
        """Elements of a lane."""
        total = 1
        for extent, _ in self.registers:
            total *= extent
        return total

    @property
    def offsets(self) -> tuple[Offset, ...]:
        """Where a lane's elements are from where it stands, in the order of registers."""
        digits = [
            [(i * down, i * across) for i in range(extent)]
            for extent, (down, across) in reversed(self.registers)
        ]
        return tuple((sum(x for x, _ in at), sum(y for _, y in at)) for at in product(*digits))

    @property
    def turned(self) -> RegisterLayout:
        """Rows for columns."""
        digits = tuple((extent, (across, down)) for extent, (down, across) in self.registers)
        return RegisterLayout(self.member[::-1], self.group[::-1], digits)

    def repeated(self, *digits: Digit) -> RegisterLayout:
        """The same so many times, each so far from the one before, in further registers."""
        return RegisterLayout(self.member, self.group, (*self.registers, *digits))

    def grouped(self, count: int) -> RegisterLayout:
        """That of the first of every `count` registers, which are whole digits or parts of one."""
        rest = []
        for extent, (down, across) in self.registers:
            taken = min(extent, count)
            count //= taken
            rest.append((extent // taken, (down * taken, across * taken)))
        return RegisterLayout(self.member, self.group, tuple(rest))

    def standing(
        self, member: e.Expression, group: e.Expression
    ) -> tuple[e.Expression, e.Expression]:
        """The row and column of a lane's first element.

        Parameters
        ----------
        member, group : Expression
            The digits of its number.
        """
        row, column = (
            add(_times(group, high), _times(member, low))
            for low, high in zip(self.member, self.group, strict=True)
        )
        return row, column

    def moved(self, which: e.Expression) -> tuple[e.Expression, e.Expression]:
        """How far the element of a register is from a lane's first, by the register's number."""
        rows = [(extent, step[0]) for extent, step in self.registers]
        columns = [(extent, step[1]) for extent, step in self.registers]
        return _sum_of_digits(rows, which), _sum_of_digits(columns, which)


def _times(x: e.Expression, step: int) -> e.Expression:
    return mul(x, step) if step else number(0, x.type)


def _sum_of_digits(digits: list[tuple[int, int]], which: e.Expression) -> e.Expression:
    """``sum of digit * step``, the digits those of `which`; neighbours that go on are one digit."""
    joined: list[tuple[int, int]] = []
    for extent, step in digits:
        if extent == 1:
            continue
        if joined and joined[-1][0] * joined[-1][1] == step:
            extent, step = extent * joined[-1][0], joined.pop()[1]
        joined.append((extent, step))
    total, span = number(0, which.type), 1
    for at, (extent, step) in enumerate(joined):
        digit = which
        if span > 1:
            digit = e.Binary("floordiv", which, number(span, which.type), nonnegative=True)
        if at < len(joined) - 1:
            digit = e.Binary("mod", digit, number(extent, which.type), nonnegative=True)
        if step:
            total = add(total, mul(digit, step))
        span *= extent
    return total
