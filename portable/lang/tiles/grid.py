"""How the work-items of a scope share out the rows and columns of matrices."""

from __future__ import annotations

from dataclasses import dataclass

from portable.lang.ir import expressions as e
from portable.lang.tiles.work import Code, add, mul


@dataclass(frozen=True, slots=True)
class Share:
    """One work-item's part of `extent` rows or columns.

    Of `parts` work-items in a line the one numbered `own` holds groups of `width` neighbours, each
    `parts` groups apart, so that vectors read by neighbouring work-items lie side by side.
    """

    extent: int
    parts: int
    width: int
    own: e.Expression

    @property
    def groups(self) -> int:
        """Groups that a work-item holds, the last perhaps beyond the extent."""
        return -(-self.extent // (self.parts * self.width))

    @property
    def count(self) -> int:
        """Rows or columns that a work-item holds."""
        return self.groups * self.width

    @property
    def exact(self) -> bool:
        """Whether every work-item holds as many."""
        return self.parts * self.count == self.extent

    def first(self, group: e.Expression) -> e.Expression:
        """The first row or column of a group."""
        return add(mul(group, self.parts * self.width), mul(self.own, self.width))


@dataclass(frozen=True, slots=True)
class Grid:
    """`down` times `across` work-items; `y` and `x` tell where this one stands."""

    down: int
    across: int
    y: e.Expression
    x: e.Expression
    widest: int

    def rows(self, extent: int) -> Share:
        """This work-item's share of rows."""
        return self._share(extent, self.down, self.y)

    def columns(self, extent: int) -> Share:
        """This work-item's share of columns."""
        return self._share(extent, self.across, self.x)

    def _share(self, extent: int, parts: int, share: e.Expression) -> Share:
        width = self.widest
        while width > 1 and extent % (parts * width):
            width //= 2
        return Share(extent, parts, width, share)

    @staticmethod
    def choose(shape: tuple[int, int], items: int, widest: int) -> tuple[int, int]:
        """The grid in which a work-item reads the fewest rows and columns in all."""

        def cost(down: int) -> tuple[float, int]:
            across = items // down
            tall, wide = -(-shape[0] // down), -(-shape[1] // across)
            waste = (tall * down * wide * across) / (shape[0] * shape[1])
            ragged = sum(n % min(widest, 4) != 0 for n in (tall, wide))
            return waste * (tall + wide) * (1 + 0.5 * ragged), across < down

        down = min((n for n in range(1, items + 1) if items % n == 0), key=cost)
        return down, items // down

    @staticmethod
    def of(
        code: Code,
        shape: tuple[int, int],
        item: e.Expression,
        items: int,
        lanes: int,
        widest: int,
    ) -> Grid:
        """The grid for matrices like one of `shape`.

        Parameters
        ----------
        code : Code
            Where to work out the place of this work-item.
        shape : (int, int)
            Of an accumulator.
        item : Expression
            This work-item's number in the scope.
        items : int
            How many there are.
        lanes : int
            How many of them access memory together.
        widest : int
            The widest vector that a work-item loads.
        """
        down, across = Grid.choose(shape, items, widest)
        tall = 1 << ((lanes.bit_length() - 1) // 2)
        wide = lanes // tall
        if items % lanes or down % tall or across % wide or lanes == 1:
            y, x = _quotient(item, across), _remainder(item, across)
        else:
            y, x = _by_lanes(code, item, lanes, tall, wide, down // tall)
        return Grid(down, across, code.let("own_y", y), code.let("own_x", x), widest)


def _by_lanes(
    code: Code, item: e.Expression, lanes: int, tall: int, wide: int, down: int
) -> tuple[e.Expression, e.Expression]:
    """Blocks of ``tall x wide`` lanes; neighbouring lanes differ in their row first, in pairs.

    Each quarter of 32 lanes then reads few different vectors on both sides.
    """
    lane = code.let("lane", _remainder(item, lanes))
    block = code.let("lanes", _quotient(item, lanes))
    pair = min(tall, 2)
    low = add(mul(_quotient(lane, pair * wide), pair), _remainder(lane, pair))
    right = _remainder(_quotient(lane, pair), wide)
    y = add(mul(_remainder(block, down), tall), low)
    x = add(mul(_quotient(block, down), wide), right)
    return y, x


def _quotient(x: e.Expression, by: int) -> e.Expression:
    if by == 1:
        return x
    if isinstance(x, e.Const):
        return e.Const(int(x.value) // by, x.type)
    return e.Binary("floordiv", x, e.Const(by, x.type), nonnegative=True)  # type: ignore[arg-type]


def _remainder(x: e.Expression, by: int) -> e.Expression:
    if by == 1 or isinstance(x, e.Const):
        return e.Const(int(x.value) % by if isinstance(x, e.Const) else 0, x.type)  # type: ignore[arg-type]
    return e.Binary("mod", x, e.Const(by, x.type), nonnegative=True)  # type: ignore[arg-type]
