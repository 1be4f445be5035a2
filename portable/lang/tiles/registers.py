"""Products without matrix units: each work-item holds a share of the matrix in its registers.

A work-item holds some rows and some columns, and of an accumulator the elements where they cross.
For each step in depth it loads its rows' elements of the first operand and its columns' of
the second, and adds their outer product. Loops over what is held are fully unrolled, so that
compilers keep the private arrays in registers, unless no device has so many.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Final

from portable.dtypes import DType
from portable.errors import UnsupportedError
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import linear_local_id
from portable.lang.ir.nodes import both
from portable.lang.ir.pipeline import Pipeline, rounds_of
from portable.lang.ir.types import Array, Fragment, Layout, Use, vector_type
from portable.lang.tiles.by_elements import ByElements, Element
from portable.lang.tiles.lanes import divided, remainder
from portable.lang.tiles.regions import place, store_neighbours
from portable.lang.tiles.rotation import Rotation, exist_always, rotation
from portable.lang.tiles.strategy import Part, Tile, contiguous_dim, kept_dims, staggered
from portable.lang.tiles.work import Code, Work, add, mul, smaller, stored


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
            y, x = divided(item, across), remainder(item, across)
        else:
            y, x = _by_lanes(code, item, lanes, tall, wide, down // tall)
        return Grid(down, across, code.let("own_y", y), code.let("own_x", x), widest)


def _by_lanes(
    code: Code, item: e.Expression, lanes: int, tall: int, wide: int, down: int
) -> tuple[e.Expression, e.Expression]:
    """Blocks of ``tall x wide`` lanes; neighbouring lanes differ in their row first, in pairs.

    Each quarter of 32 lanes then reads few different vectors on both sides.
    """
    lane = code.let("lane", remainder(item, lanes))
    block = code.let("lanes", divided(item, lanes))
    pair = min(tall, 2)
    low = add(mul(divided(lane, pair * wide), pair), remainder(lane, pair))
    right = remainder(divided(lane, pair), wide)
    y = add(mul(remainder(block, down), tall), low)
    x = add(mul(divided(block, down), wide), right)
    return y, x


_VECTOR_BYTES: Final = 16
_MOST_UNROLLED: Final = 4096
_MOST_HELD: Final = 1024
"""The registers of a work-item in bytes, on the devices that have most; what is larger lies in
memory however the loops are written, and unrolled compilers take minutes over it."""


class Registers(ByElements):
    """Shares of matrices in registers; suits every scope and device."""

    _grid: Grid
    _unrolled: int
    """How to unroll loops over what is held."""

    def __init__(self, work: Work, part: Part) -> None:
        super().__init__(work, part)
        self._held: dict[Fragment, Array] = {}

    @classmethod
    def suits(cls, work: Work, part: Part) -> bool:
        """Always."""
        return True

    # -- storage ----------------------------------------------------------------------------

    def declare(self) -> s.Block:
        """A private array for each fragment, the first operands' tiles with rows side by side."""
        code = self.work.code(self.work.kernel.loc)
        like = (self.part.accumulators or self.part.fragments)[0]
        item, items = self._scope(code, like)
        size = like.dtype.register.itemsize
        widest = max(1, min(4, _VECTOR_BYTES // size))
        lanes = self.work.kernel.sub_group_size
        lanes = 32 if lanes == 1 and self.work.capabilities.kind == "gpu" else lanes
        self._grid = Grid.of(code, like.shape, item, items, lanes, widest)
        for fragment in self.part.fragments:
            rows, columns = self._shares(fragment)
            shape = (_count(rows, fragment.shape[0]), _count(columns, fragment.shape[1]))
            dtype = self.work.held_type(fragment)
            self._held[fragment] = self.work.private(fragment.name, dtype, shape)
        largest = max(prod(x.shape) * x.dtype.itemsize for x in self._held.values())
        self._unrolled = -1 if largest <= _MOST_HELD else 1
        for tile in self.part.tiles.values():
            layout = _layout(tile)
            if layout is not None:
                self.work.replace(tile.array, layout)
        return code.block

    def _scope(self, code: Code, like: Fragment) -> tuple[e.Expression, int]:
        """This work-item's number in the scope, and how many there are."""
        kernel = self.work.kernel
        scopes = {fragment.scope for fragment in self.part.fragments}
        if len(scopes) > 1:
            raise UnsupportedError(
                f"{kernel.loc}: the matrices {', '.join(f.name for f in self.part.fragments)} "
                f"are multiplied together but have the scopes {', '.join(sorted(scopes))}; "
                "give them one"
            )
        if like.scope == "workgroup":
            item = linear_local_id(kernel.workgroup, kernel.index_type)
            return code.let("item", item), self.work.items
        if like.scope == "work_item" or kernel.sub_group_size == 1:
            return code.index(0), 1
        if self.work.items % kernel.sub_group_size:
            raise UnsupportedError(
                f"{kernel.loc}: {like.name} belongs to a sub-group of {kernel.sub_group_size}, but "
                f"the workgroup of {self.work.items} work-items is no whole number of sub-groups; "
                f"choose a multiple of {kernel.sub_group_size}"
            )
        item = e.WorkItem("sub_group_local_id", 0, kernel.index_type)
        return code.let("item", item), kernel.sub_group_size

    def _shares(self, fragment: Fragment) -> tuple[Share | None, Share | None]:
        """The shares of rows and columns; None where a work-item holds all."""
        rows = None if fragment.use == "b" else self._grid.rows(fragment.shape[0])
        columns = None if fragment.use == "a" else self._grid.columns(fragment.shape[1])
        return rows, columns

    # -- elements ---------------------------------------------------------------------------

    def _array(self, fragment: Fragment) -> Array:
        return self._held[fragment]

    def fill(self, x: s.FragmentFill) -> s.Block:
        """The value in every register."""
        code = self.work.code(x.loc)
        value = code.let("filling", stored(x.value, x.fragment))
        array = self._held[x.fragment]
        with (
            code.loop("i", array.shape[0], unroll=self._unrolled) as i,
            code.loop("j", array.shape[1], unroll=self._unrolled) as j,
        ):
            code.store(array, (i, j), value)
        return code.block

    def store(self, x: s.FragmentStore) -> s.Block:
        """Vectors of neighbours; operands, which several work-items hold, by one of them."""
        code = self.work.code(x.loc)
        array = self._held[x.fragment]
        columns = self._shares(x.fragment)[1]
        width = columns.width if columns is not None and columns.exact else 1
        with self._each(code, x.fragment, width) as (row, column, (i, j), position):
            values = [code.load(array, (i, add(j, u)), array.dtype.register) for u in range(width)]
            with code.when(both(self._first(x.fragment), position)):
                store_neighbours(code, x.target, row, column, values)
        return code.block

    def _first(self, fragment: Fragment) -> e.Expression | None:
        """Whether this work-item is the first of those that hold the same elements."""
        if fragment.use == "accumulator":
            return None
        other = self._grid.x if fragment.use == "a" else self._grid.y
        if isinstance(other, e.Const):
            return None
        return e.Compare("eq", other, e.Const(0, self.work.kernel.index_type))

    @contextmanager
    def _each(self, code: Code, fragment: Fragment, step: int = 1) -> Iterator[Element]:
        """Row, column, index of an element and whether it exists, inside unrolled loops.

        Columns are taken `step` at a time.
        """
        (rows, columns), unroll = self._shares(fragment), self._unrolled
        tall, wide = fragment.shape
        with (
            _along(code, rows, tall, "row", unroll) as (row, i, some),
            _along(code, columns, wide, "column", unroll, step) as (column, j, other),
        ):
            yield row, column, (i, j), both(some, other)

    # -- products ---------------------------------------------------------------------------

    def multiply(self, x: s.Multiply) -> s.Block:
        """An outer product of what this work-item holds for each step in depth."""
        code = self.work.code(x.loc)
        total, depth = self._held[x.accumulator], x.a.shape[1]
        operands = self._operands(x)
        with code.loop("k", depth, unroll=self._deep(x, depth, total.shape)) as k:
            self._fetch(code, x, k, operands)
            self._outer(code, *operands, total)
        return code.block

    def pipeline(self, x: Pipeline) -> s.Block:
        """Rotated, so that the next round's first operands are loaded in this one's last step.

        Only where all steps are unrolled: operands of two steps take turns in the registers. On an
        H200 products of 4096 in single precision took 0.96 of the time so.
        """
        rotated = rotation(x)
        if rotated is None or not self._rotates(rotated):
            return super().pipeline(x)
        before, code = self.work.code(x.loc), self.work.code(x.loc)
        turns = self._operands(rotated.product), self._operands(rotated.product)
        total, last = self._held[rotated.product.accumulator], rotated.product.a.shape[1] - 1
        before.emit(*rotated.waits)
        self._fetch(before, rotated.first, code.index(0), turns[0])
        code.emit(*rotated.bindings)
        for k in range(last):
            self._fetch(code, rotated.product, code.index(k + 1), turns[(k + 1) % 2])
            self._outer(code, *turns[k % 2], total)
            if k == 0:
                code.emit(*rotated.copies)
        code.emit(*rotated.waits)
        self._fetch(code, rotated.following, code.index(0), turns[0])
        self._outer(code, *turns[last % 2], total)
        return *before.block, rounds_of(x, code.block)

    def _rotates(self, rotated: Rotation) -> bool:
        """Whether a loop around a product is rotated."""
        x = rotated.product
        depth, held = x.a.shape[1], self._held[x.accumulator].shape
        gpu = self.work.capabilities.kind == "gpu"
        in_tiles = isinstance(x.a, e.Region) and isinstance(x.b, e.Region)
        whole = in_tiles and self._deep(x, depth, held) < 0
        even = depth % 2 == 0
        return gpu and whole and even and exist_always(rotated.following, self.work.facts)

    def _operands(self, x: s.Multiply) -> tuple[Array, Array]:
        """Registers for this work-item's part of one step's operands."""
        total = self._held[x.accumulator]
        rows, columns = self._factors(x)
        left = self.work.private(f"{total.name}_a", total.dtype, (rows.count,))
        return left, self.work.private(f"{total.name}_b", total.dtype, (columns.count,))

    def _fetch(
        self, code: Code, x: s.Multiply, k: e.Expression, operands: tuple[Array, Array]
    ) -> None:
        """Loads one step's operands."""
        rows, columns = self._factors(x)
        self._operand(code, x.a, "a", rows, k, operands[0])
        self._operand(code, x.b, "b", columns, k, operands[1])

    def _factors(self, x: s.Multiply) -> tuple[Share, Share]:
        """The shares of the first operand's rows and of the second's columns."""
        rows, columns = self._shares(x.accumulator)
        assert rows is not None
        assert columns is not None
        return rows, columns

    def _deep(self, x: s.Multiply, depth: int, held: tuple[int, ...]) -> int:
        """How far to unroll the depth: all of it where registers are indexed by it.

        A CPU's compiler decides for itself: it takes minutes over unrolled text, for no gain.
        """
        size = held[0] * held[1]
        if self.work.capabilities.kind == "cpu":
            return 0
        if self._unrolled > 0:
            return self._unrolled
        if isinstance(x.a, Fragment) or isinstance(x.b, Fragment) or depth * size <= _MOST_UNROLLED:
            return -1
        return max(1, min(8, _MOST_UNROLLED // size))

    def _operand(
        self,
        code: Code,
        operand: Fragment | e.Region,
        use: Use,
        share: Share,
        k: e.Expression,
        into: Array,
    ) -> None:
        """This work-item's elements of one column of the first operand or row of the second."""
        if isinstance(operand, Fragment):
            with code.loop("i", share.count, unroll=self._unrolled) as i:
                at = (i, k) if use == "a" else (k, i)
                code.store(into, (i,), code.load(self._held[operand], at, into.dtype))
            return
        dim = kept_dims(operand)[0 if use == "a" else 1]
        array = self.work.current(operand.array)
        kind = vector_type(into.dtype, share.width)
        with code.loop("g", share.groups, unroll=self._unrolled) as group:
            start = code.let("at", self._clamped(share, share.first(group)))
            index = place(operand, start, k) if use == "a" else place(operand, k, start)
            value = code.load(array, index, kind, dim)
            for lane in range(share.width):
                one = value if share.width == 1 else e.Lane(value, lane)
                code.store(into, (add(mul(group, share.width), lane),), one)

    def _clamped(self, share: Share, first: e.Expression) -> e.Expression:
        """Work-items with no such row read one that exists; nobody sees what they make of it."""
        if share.exact:
            return first
        assert isinstance(first.type, DType)
        return e.Binary("min", first, e.Const(share.extent - 1, first.type))

    def _outer(self, code: Code, left: Array, right: Array, total: Array) -> None:
        rows, columns = total.shape
        with (
            code.loop("i", rows, unroll=self._unrolled) as i,
            code.loop("j", columns, unroll=self._unrolled) as j,
        ):
            here = _zigzag(i, j, columns) if self._unrolled < 0 else j
            a, b = code.load(left, (i,), total.dtype), code.load(right, (here,), total.dtype)
            old = code.load(total, (i, here), total.dtype)
            new = e.Binary("add", e.Binary("mul", a, b), old)
            code.store(total, (i, here), new)


def _zigzag(i: e.Expression, j: e.Expression, columns: int) -> e.Expression:
    """Every other row backwards: neighbouring products then share an operand's register."""
    if isinstance(i, e.Const) or isinstance(j, e.Const):
        return j
    assert isinstance(i.type, DType)
    back = e.Binary("sub", e.Const(columns - 1, i.type), j)
    odd = e.Compare("eq", e.Binary("and", i, e.Const(1, i.type)), e.Const(1, i.type))
    return e.Select(odd, back, j)


def _count(share: Share | None, extent: int) -> int:
    return extent if share is None else share.count


@contextmanager
def _along(
    code: Code, share: Share | None, extent: int, name: str, unroll: int, step: int = 1
) -> Iterator[tuple[e.Expression, e.Expression, e.Expression | None]]:
    """Row or column, its place in the registers, whether it exists; inside a loop over all."""
    if share is None:
        with code.loop(name, extent, unroll=unroll) as at:
            yield at, at, None
        return
    with (
        code.loop("g", share.groups, unroll=unroll) as group,
        code.loop("u", share.width, step=step, unroll=unroll) as u,
    ):
        at = code.let(name, add(share.first(group), u))
        held = add(mul(group, share.width), u)
        yield at, held, None if share.exact else smaller(at, share.extent)


def _layout(tile: Tile) -> Layout | None:
    """Neighbours along the dimension that vectors are loaded along; None to leave it as it is.

    Copies from arrays that are contiguous across that dimension write an element to each of several
    lines: padding spreads these over the banks of local memory.
    """
    array = tile.array
    if tile.bulk or len(tile.uses) != 1 or array.layout is None or array.layout.swizzle:
        return None
    ((use, rows, columns),) = tile.uses
    lanes, lines = (rows, columns) if use == "a" else (columns, rows)
    if array.layout.strides[lanes] == 1 and contiguous_dim(tile) != lines:
        return None
    line = staggered(array.shape[lanes], max(1, _VECTOR_BYTES // array.dtype.itemsize))
    strides = [0] * array.ndim
    strides[lanes], strides[lines] = 1, line
    size = line * array.shape[lines]
    for dim in reversed(range(array.ndim)):
        if dim not in (lanes, lines):
            strides[dim], size = size, size * array.shape[dim]
    return Layout(tuple(strides), size)
