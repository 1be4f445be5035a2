"""What a strategy, a way to hold fragments on a device, is given and how it lays tiles out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Self

from portable.lang.ir import statements as s
from portable.lang.ir.expressions import Region
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.nodes import constant_of
from portable.lang.ir.pipeline import Pipeline, in_rounds
from portable.lang.ir.types import Array, Fragment, Layout, Use, chunk_bytes
from portable.lang.ir.walks import all_statements, of_kind
from portable.lang.tiles.work import Work

# Groups fragments that products connect, and finds the local arrays that are their operands.


@dataclass(slots=True)
class Tile:
    """A local array that is an operand of multiplications.

    Attributes
    ----------
    array : Array
        The array.
    uses : set of (use, row dimension, column dimension)
        How multiplications see it: as "a" or "b", and which of its dimensions are the operand's
        rows and columns.
    copies : list of CopyTile
        The copies into it.
    whole : bool
        Whether all operands and copies are of everything in these two dimensions.
    exclusive : bool
        Whether nothing else touches it.
    """

    array: Array
    uses: set[tuple[Use, int, int]] = field(default_factory=set)
    copies: list[s.CopyTile] = field(default_factory=list)
    whole: bool = True
    exclusive: bool = True
    bulk: bool = False


@dataclass(slots=True)
class Part:
    """Fragments connected by multiplications, common operand tiles or maps of several."""

    fragments: list[Fragment] = field(default_factory=list)
    multiplies: list[s.Multiply] = field(default_factory=list)
    tiles: dict[Array, Tile] = field(default_factory=dict)

    @property
    def accumulators(self) -> list[Fragment]:
        """The fragments that are neither operand."""
        return [f for f in self.fragments if f.use == "accumulator"]


def kept_dims(region: Region) -> list[int]:
    """The dimensions of the array that are those of the region, in the region's order."""
    kept = [dim for dim, extent in enumerate(region.extents) if extent is not None]
    return kept[::-1] if region.transposed else kept


def alike_dims(copy: s.CopyTile) -> dict[int, int]:
    """By the target's dimensions the source's in which a step is one of the target's.

    Of dimensions that are counted as one that is the last.
    """
    source, target = kept_dims(copy.source), kept_dims(copy.target)
    return dict(zip(target, source[-len(target) :], strict=True))


def covers(region: Region) -> bool:
    """Whether a part of a local array is all of it along the dimensions that it keeps."""
    return all(
        region.extents[dim] == region.array.shape[dim] and constant_of(region.starts[dim]) == 0
        for dim in kept_dims(region)
    )


def parts_of(fragments: tuple[Fragment, ...], body: s.Block) -> list[Part]:
    """The fragments of a kernel in connected parts, in the order of declaration."""
    multiplies = list(of_kind(body, s.Multiply))
    groups: list[set[Fragment | Array]] = [{fragment} for fragment in fragments]
    mapped = [x for x in all_statements(body) if isinstance(x, s.ForElements) and x.partners]
    for x in (*multiplies, *mapped):
        joined = set(_together(x))
        touching = [group for group in groups if group & joined]
        groups = [group for group in groups if not group & joined]
        groups.append(joined.union(*touching))
    order = {fragment: number for number, fragment in enumerate(fragments)}
    parts = [_part(group, order, multiplies, body) for group in groups]
    return sorted(parts, key=lambda part: order[part.fragments[0]])


def _together(x: s.Statement) -> tuple[Fragment | Array, ...]:
    """What a multiplication or a map connects."""
    if isinstance(x, s.ForElements):
        return x.fragment, *x.partners
    assert isinstance(x, s.Multiply)
    return x.accumulator, _thing(x.a), _thing(x.b)


def _thing(operand: Fragment | Region) -> Fragment | Array:
    return operand.array if isinstance(operand, Region) else operand


def _part(
    group: set[Fragment | Array],
    order: dict[Fragment, int],
    multiplies: list[s.Multiply],
    body: s.Block,
) -> Part:
    part = Part(sorted((x for x in group if isinstance(x, Fragment)), key=order.__getitem__))
    part.multiplies = [x for x in multiplies if x.accumulator in group]
    for x in part.multiplies:
        _note(part, x.a, "a")
        _note(part, x.b, "b")
    for statement in all_statements(body):
        _touch(part, statement)
    return part


def _note(part: Part, operand: Fragment | Region, use: Use) -> None:
    if isinstance(operand, Fragment):
        return
    tile = part.tiles.setdefault(operand.array, Tile(operand.array))
    rows, columns = kept_dims(operand)
    tile.uses.add((use, rows, columns))
    tile.whole = tile.whole and covers(operand)


def _touch(part: Part, statement: s.Statement) -> None:
    """What a statement other than a multiplication does to the part's tiles."""
    match statement:
        case s.CopyTile(target=Region(array=array) as target) if array in part.tiles:
            tile = part.tiles[array]
            tile.copies.append(statement)
            tile.whole = tile.whole and covers(target) and len(target.shape) == 2
        case s.Multiply():
            pass
        case _:
            for thing in statement.touched():
                if isinstance(thing, Array):
                    _share(part, thing, isinstance(statement, s.BulkCopy))


def _share(part: Part, array: Array, bulk: bool = False) -> None:
    tile = part.tiles.get(array)
    if tile is not None:
        tile.exclusive = False
        tile.bulk = tile.bulk or bulk


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


# Layouts of operand tiles for matrix units: the contiguous dimension, and padding of rows.
#
# Rows are contiguous where the array that fills the tile is, so that copies move whole vectors; the
# instructions read either way.


_CHUNK: Final = 16
_BANKS: Final = 128


def contiguous_dim(tile: Tile) -> int:
    """The dimension of a tile along which the arrays that fill it have unit stride."""
    dims = {
        to
        for copy in tile.copies
        for to, start in alike_dims(copy).items()
        if copy.source.array.strides[start] == "unit"
    }
    last = tile.array.ndim - 1
    return dims.pop() if len(dims) == 1 else last


def spread(work: Work, tiles: list[Tile]) -> None:
    """Gives tiles rows that fall into different banks, by padding where there is room."""
    free = [tile for tile in tiles if not tile.bulk]
    padded = {tile.array: _padded(tile) for tile in free}
    capabilities = work.capabilities
    room = max(capabilities.local_memory, capabilities.local_memory_opt_in)
    if _bytes(work.kernel, padded) > room:
        swizzled = {tile.array: _swizzled(tile) for tile in free}
        fits = _bytes(work.kernel, swizzled) <= room
        if fits or _bytes(work.kernel, padded) > capabilities.local_memory_most:
            padded = swizzled
    for array, layout in padded.items():
        work.replace(array, layout)


def _bytes(kernel: Kernel, new: dict[Array, Layout]) -> int:
    total = 0
    for array in kernel.arrays:
        layout = new.get(array, array.layout)
        if array.space == "local" and layout is not None:
            total += -(-layout.size * array.dtype.itemsize // _BANKS) * _BANKS
    return total


def _padded(tile: Tile) -> Layout:
    """Rows an odd number of ldmatrix's rows apart; for others, 4 lanes of 8 rows side by side.

    Singles that are neighbours across the sum are read by 8 lanes of 4 rows.
    """
    array = tile.array
    chunk = 4 if array.dtype.itemsize == 8 else _CHUNK // array.dtype.itemsize
    if array.dtype.itemsize == 4 and not _along_sum(tile):
        chunk *= 2
    extent = array.shape[contiguous_dim(tile)]
    return rows(tile, staggered(extent, chunk))


def _along_sum(tile: Tile) -> bool:
    """Whether the contiguous dimension is the one that is summed over."""
    inner = contiguous_dim(tile)
    return any(inner == (columns if use == "a" else rows) for use, rows, columns in tile.uses)


def staggered(extent: int, chunk: int) -> int:
    """From one row to the next, so that chunks below each other lie in different banks."""
    return extent + chunk if extent % (2 * chunk) == 0 else extent


def _swizzled(tile: Tile) -> Layout:
    """Rows without padding, their chunks turned where their number is a power of two."""
    array = tile.array
    extent, size = array.shape[contiguous_dim(tile)], array.dtype.itemsize
    chunks, rest = divmod(extent * size, chunk_bytes(size))
    plain = rows(tile, extent)
    turns = not rest and chunks > 1 and chunks & (chunks - 1) == 0 and size in (2, 8)
    return Layout(plain.strides, plain.size, chunks) if turns else plain


def rows(tile: Tile, stride: int) -> Layout:
    """Contiguous along one dimension, `stride` elements from row to row, the rest outside."""
    array, inner = tile.array, contiguous_dim(tile)
    outer = [dim for dim in range(array.ndim) if dim != inner]
    strides = [0] * array.ndim
    strides[inner] = 1
    size = stride
    rows_of_uses = {dim for use in tile.uses for dim in use[1:]}
    for dim in sorted(outer, key=lambda dim: (dim in rows_of_uses, dim), reverse=True):
        strides[dim] = size
        size *= array.shape[dim]
    return Layout(tuple(strides), size)
