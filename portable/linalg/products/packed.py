"""How products of packed operands are launched, and where a core's work-item had better pack them.

A tile of `gemm_tiles` copies what it needs of both operands, which every other tile of its rows or
columns copies too. Packing each operand once instead wants room for it, so that long sums are cut:
of a slab of columns of the left operand and rows of the right one both are packed and multiplied
before the next, and the sums between them are kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from itertools import accumulate
from math import gcd, prod
from typing import Any, Final, NamedTuple

from portable.backend import Capabilities, Device
from portable.dtypes import DType, float16, float32
from portable.lang.function import Function
from portable.lang.launch.geometry import groups
from portable.lang.launch.launch import Launcher
from portable.lang.tiles.micro_shape import MicroShape
from portable.linalg.products.kernels import keep, relu
from portable.linalg.products.model import Product
from portable.linalg.products.packed_kernels import (
    Packing,
    Side,
    Slab,
    multiply,
    multiply_halves,
    pack_halves,
    pack_right,
)
from portable.namespace import device_of_arrays

__all__ = [
    "Packing",
    "Step",
    "kept_room",
    "packed_launcher",
    "packed_steps",
    "packing_for",
    "packing_pays",
    "sums_halves",
]

Step = tuple[Launcher, tuple[Any, ...], dict[str, Any]]
_Launch = tuple[Launcher, dict[str, Any]]
Empty = Callable[[tuple[int, ...], DType], Any]

_SLAB: Final = 4096
"""Bytes of a row of the left operand in a slab: 132 rows take a quarter of a core's cache."""

_AHEAD: Final = 2048
"""Bytes that a micro-tile asks for before it multiplies them: products of 1024 took 0.94 so."""

_ROWS: Final = 132
"""Of the left operand at most that a work-item packs before it multiplies them."""

_RUN: Final = 4
"""Rows whose numbers are stored together at a time where rows lie together."""

_RIGHT: Final = (16, 16)
"""Strips, and products of each, of a tile in which the right operand is packed, for that too."""

_LINE: Final = 64
"""Bytes of a line of the caches; strips begin at multiples of as many elements."""

_HALVES: Final = MicroShape(6, 8, 16)
"""Of sums of halves: 6 x 4 vectors of 32.

Two cores of a Xeon took 1.00 to 1.04 of the time with 8 x 3 and 1.05 to 1.11 with 4 x 6. With 12 x
2 Intel's compiler makes vectors by an instruction for each factor.
"""

_HALF_RUN: Final = 128
"""Products that are summed in half precision: 256 took 0.98 of the time."""

_ALONE: Final = (1, 1, 1)

_FEWEST_USES: Final = 512
"""Of each element that is packed."""

_FEWEST_PRODUCTS: Final = 2**30
"""Multiplications of a product from which on packing pays.

On two cores of a Xeon products of single precision of 1024, 2048 and 4096 took 0.96, 0.94 and 0.94
of the time so, of 512 1.05 to 1.15; of double precision of 1024 one core took 0.88.
"""

_FEWEST_RESULTS: Final = 2**20
"""Elements of a result for which packing pays with short sums, too.

Each tile clears, finishes and stores its sums for few products. One core took 0.36 of the time for
2048 x 32 by 32 x 2048 in single precision so, 0.78 for 1024 x 64 by 64 x 1024.
"""

_SHORTEST: Final = 16
"""Products of such a sum at least."""

_FEWEST_ROWS: Final = 256
_FEWEST_COLUMNS: Final = 64
_LONGEST: Final = 4
"""Times the smaller extent of a result that sums are at most, if it is smaller than that.

On one core 2048 x 512 by 512 x 256 took 0.8 of the time packed, 256 x 2048 by 2048 x 512 1.04.
"""

_FEWEST_SMALL: Final = 2**26
"""Multiplications of such a product from which on packing pays."""

_FEWEST_BIASED: Final = 2**24
"""The same where a bias is added, which tiles do element by element.

On one core 1024 x 64 by 64 x 256 took 0.44 of the time in single and 0.62 in double precision, 1024
x 256 by 256 x 64 0.66 and 0.82 to 1.1.
"""

_FEWEST_HALVES: Final = 256
"""Extents of a product that is summed as halves from which on packing pays.

Two cores took 0.9 of the time for 256, 0.7 for 384 and 0.6 for 512.
"""

_STREAMED: Final = 2**22
"""Bytes of a result that passes the caches by: lines that it fills are not read from memory first.

One core took 0.85 of the time for a product of 2048 in double precision so, 0.95 for 1024.
"""

_MOST_SUMS: Final = 2**26
"""Bytes of sums between slabs; of larger results panels of columns are made one after the other."""

_MOST_KEPT: Final = 2**27
"""Bytes that a thread keeps for the next product: memory that is new is slow to touch."""


@lru_cache(maxsize=64)
def packing_for(
    capabilities: Capabilities, accumulator: DType, activation: Function = keep
) -> Packing:
    """How to pack for a device whose work-items have cores to themselves.

    Parameters
    ----------
    capabilities : Capabilities
        Of the device.
    accumulator : DType
        What to sum in, halves some at a time; operands are packed as that.
    activation : Function
        Of each element of the result.
    """
    shape, halves = (_ROWS, 512), accumulator is float16
    size, cores = accumulator.itemsize, max(1, capabilities.compute_units)
    return Packing(
        micro=_HALVES
        if halves
        else MicroShape.choose(capabilities, accumulator, [shape], padding=True),
        slab=_SLAB // size,
        rows=_ROWS,
        ahead=_AHEAD // size,
        cores=cores,
        activation=activation,
        lanewise=activation in (keep, relu),
        run=_HALF_RUN if halves else 0,
    )


def sums_halves(capabilities: Capabilities) -> bool:
    """Whether a processor multiplies and adds vectors of 64 bytes in half precision.

    Parameters
    ----------
    capabilities : Capabilities
        Of the device.
    """
    wide = capabilities.native_half and capabilities.vector_bytes >= _LINE
    return wide and capabilities.lone_work_items


def packed_launcher(plan: Packing, rows: int) -> Launcher:
    """The kernel that multiplies packed operands, for a result of so many rows.

    Parameters
    ----------
    plan : Packing
        The tiles.
    rows : int
        Of the result.
    """
    kernel = multiply_halves if plan.run else multiply
    return kernel[groups(plan.groups(rows)), _ALONE]


def packing_pays(product: Product, capabilities: Capabilities, halves: bool = False) -> bool:
    """Whether it does, by what was measured.

    Parameters
    ----------
    product : Product
        Its extents.
    capabilities : Capabilities
        Of the device.
    halves : bool
        Whether they are summed as halves, which tiles are not.
    """
    alone = capabilities.lone_work_items and product.batch == 1
    large = halves and min(product.m, product.n, product.k) >= _FEWEST_HALVES
    return alone and (large or _is_large(product) or _has_many_uses(product))


def _is_large(product: Product) -> bool:
    m, n, k = product.m, product.n, product.k
    wide = m * n >= _FEWEST_RESULTS and k >= _SHORTEST
    return min(m, n) >= _FEWEST_USES and (wide or m * n * k >= _FEWEST_PRODUCTS)


def _has_many_uses(product: Product) -> bool:
    """Whether smaller ones use what is packed often enough, for sums that are not long."""
    m, n, k = product.m, product.n, product.k
    fewest = _FEWEST_BIASED if product.biased else _FEWEST_SMALL
    extents = m >= _FEWEST_ROWS and n >= _FEWEST_COLUMNS and k >= _SHORTEST
    small = product.biased or min(m, n) < _FEWEST_USES
    return extents and small and k <= _LONGEST * min(m, n) and m * n * k >= fewest


def packed_steps(
    plan: Packing, args: tuple[Any, ...], accumulator: DType, empty: Empty
) -> Iterator[Step]:
    """The launches that make a product, one after the other, each with arguments and constants.

    Parameters
    ----------
    plan : Packing
        The tiles.
    args : tuple
        ``(alpha, a, b, beta, c, bias, out)``, of which `c` is None, and `bias` or has shape (N,).
    accumulator : DType
        The type to sum in.
    empty : callable
        Makes room for the packed operands.
    """
    alpha, a, b, _, _, bias, out = args
    columns = b.T
    right_side = _side(plan.micro.columns, plan, columns)
    left_side = _side(plan.micro.rows, plan, a)
    plan = plan._replace(left=left_side._replace(times=2) if plan.run else left_side)
    cut = _cut(plan, right_side, (*out.shape, int(a.shape[1])), accumulator)
    left, right, kept = _rooms(plan, cut.rooms, accumulator, empty)
    behind = _behind(plan, out)
    for pack, multiplication, slab in cut.steps:
        if behind and slab.width >= plan.micro.columns:
            slab = slab._replace(turned=behind)
        yield pack[0], (columns, right, slab), pack[1]
        arguments = alpha, a, left, right, kept, bias, out, slab
        yield multiplication[0], arguments, multiplication[1]


class _Cut(NamedTuple):
    """How a product of some extents is cut: shapes of the rooms, launches and their slabs.

    A launch is a launcher and its constants; the slabs are not turned yet.
    """

    rooms: tuple[tuple[int, ...], ...]
    steps: tuple[tuple[_Launch, _Launch, Slab], ...]


@lru_cache(maxsize=1024)
def _cut(plan: Packing, right: Side, extents: tuple[int, int, int], accumulator: DType) -> _Cut:
    """The same for all products of these extents, so that launches know their constants again."""
    m, n, k = extents
    slabs = max(1, -(-k // plan.slab))
    depth = max(1, -(-k // slabs))
    width = _panel(plan, m, n, accumulator) if slabs > 1 else n
    rooms = _room_shapes(plan, (m, width), depth, slabs > 1)
    plan = plan._replace(streaming=m * n * accumulator.itemsize >= _STREAMED)
    pack, launcher = _packed_right(plan, right, rooms[1]), packed_launcher(plan, m)
    firsts = range(0, max(1, k), depth)
    parts = [{"PLAN": plan, "PART": (x == 0, x + depth >= k)} for x in firsts]
    return _Cut(
        rooms,
        tuple(
            (pack, (launcher, part), Slab(first, column, min(width, n - column)))
            for column in range(0, n, width)
            for first, part in zip(firsts, parts, strict=True)
        ),
    )


def _panel(plan: Packing, rows: int, columns: int, accumulator: DType) -> int:
    """Columns of a result whose sums are kept between slabs at a time."""
    size = _summed_in(plan, accumulator).itemsize
    most = max(_FEWEST_USES, _MOST_SUMS // (rows * size))
    panels = -(-columns // most)
    return _up(-(-columns // panels), _RIGHT[0] * plan.micro.columns)


def _room_shapes(
    plan: Packing, shape: tuple[int, int], depth: int, several: bool
) -> tuple[tuple[int, ...], ...]:
    """Of the strips of both operands, and of the sums between several slabs."""
    (m, n), micro = shape, plan.micro
    strips, across = -(-m // micro.rows), -(-n // micro.columns)
    left = strips, depth, plan.left.times * micro.rows
    right = across, depth, micro.columns
    return left, right, (across if several else 1, strips, micro.rows, micro.columns)


def _summed_in(plan: Packing, accumulator: DType) -> DType:
    """The type of the sums between runs and slabs."""
    return float32 if plan.run else accumulator


def _rooms(
    plan: Packing, shapes: tuple[tuple[int, ...], ...], accumulator: DType, empty: Empty
) -> list[Any]:
    """Those of `_room_shapes`."""
    kind = _summed_in(plan, accumulator)
    if kind is accumulator:
        return _side_by_side(shapes, kind, empty)
    operands, sums = shapes[:2], shapes[2:]
    return _side_by_side(operands, accumulator, empty) + _side_by_side(sums, kind, empty)


def _side_by_side(shapes: tuple[tuple[int, ...], ...], kind: DType, empty: Empty) -> list[Any]:
    """Arrays of some shapes, which begin where lines of caches do."""
    sizes = [_up(prod(shape), _LINE) for shape in shapes]
    room = empty((sum(sizes) + _LINE,), kind)
    address = device_of_arrays(room).view(room).address
    begins = accumulate(sizes, initial=-address // kind.itemsize % _LINE)
    return [room[at : at + prod(x)].reshape(x) for at, x in zip(begins, shapes, strict=False)]


@lru_cache(maxsize=64)
def _side_of(width: int, lanes: int, upright: bool) -> Side:
    most = gcd(width, lanes)
    return Side(width, most if upright else gcd(_RUN, most), lanes, upright)


def _side(width: int, plan: Packing, x: Any) -> Side:
    """How a matrix is packed to strips of so many rows."""
    return _side_of(width, plan.micro.lanes, _is_upright(x))


def _is_upright(x: Any) -> bool:
    """Whether numbers of a column of a matrix are closer together than those of a row."""
    row, column = device_of_arrays(x).view(x).strides
    return bool(abs(row) < abs(column))


def _behind(plan: Packing, out: Any) -> int:
    """Elements by which rows of a result begin behind a place for a vector; 0 if they differ.

    By as many columns tiles begin before the result, so that vectors lie in one line of the caches
    each, and those as long as a line fill it.
    """
    view = device_of_arrays(out).view(out)
    size, (row, element) = view.dtype.itemsize, view.strides
    vector = plan.micro.lanes * size
    alike = row % vector == 0 and element == size
    return int(view.address % vector // size) if alike else 0


def _packed_right(plan: Packing, how: Side, shape: tuple[int, ...]) -> _Launch:
    """What packs the right operand to strips of a shape."""
    (strips, depth, _), (most, rows) = shape, _RIGHT
    count = min(most, 1 << (strips - 1).bit_length())  # a power of two, for few kernels
    tiles = -(-strips // count) * -(-depth // rows)
    kernel = pack_halves if plan.run else pack_right
    return kernel[groups(tiles), _ALONE], {"HOW": how, "COUNT": count, "DEPTH": rows}


def _up(x: int, step: int) -> int:
    return -(-x // step) * step


class _Kept(threading.local):
    """By device and type, the queue and the room of a thread's last product.

    A queue does one thread's work in order; two may do theirs at the same time.
    """

    def __init__(self) -> None:
        self.rooms: dict[tuple[Device, DType], tuple[Hashable, Any]] = {}


_kept = _Kept()


def kept_room(device: Device, shape: tuple[int, ...], kind: DType) -> Any:
    """Room for a product on the current queue, which this thread's next one there may overwrite.

    Parameters
    ----------
    device : Device
        Where.
    shape : (int,)
        How many elements at least.
    kind : DType
        Their type.
    """
    current = device.current_queue()
    queue, room = _kept.rooms.get((device, kind), (current, None))
    if room is None or queue != current or room.shape[0] < shape[0]:
        room = device.empty(shape, kind)
        if shape[0] * kind.itemsize <= _MOST_KEPT:
            _kept.rooms[device, kind] = current, room
    return room
