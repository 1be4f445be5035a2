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
from math import prod
from typing import Any, Final

from portable.backend import Capabilities, Device
from portable.dtypes import DType
from portable.lang.geometry import groups
from portable.lang.launch import Launcher
from portable.lang.passes.matrix.micro_shape import MicroShape
from portable.linalg.gemm_model import Product
from portable.linalg.gemm_packed_kernels import Packing, multiply_strips, pack_right
from portable.namespace import device_of_arrays

__all__ = ["Packing", "kept_room", "packed_steps", "packing_for", "packing_pays"]

Step = tuple[Launcher, tuple[Any, ...], dict[str, Any]]
Empty = Callable[[tuple[int, ...], DType], Any]

_SLAB: Final = 4096
"""Bytes of a row of the left operand in a slab: 132 rows take a quarter of a core's cache."""

_AHEAD: Final = 2048
"""Bytes that a micro-tile asks for before it multiplies them: products of 1024 took 0.94 so."""

_ROWS: Final = 132
"""Of the left operand at most that a work-item packs before it multiplies them."""

_DEPTH: Final = 256
"""Products for which it packs rows at a time: short runs of a row are slow to read."""

_RIGHT: Final = (16, 16)
"""Strips, and products of each, of a tile in which the right operand is packed, for that too."""

_LINE: Final = 64
"""Bytes of a line of the caches; strips begin at multiples of as many elements."""

_ALONE: Final = (1, 1, 1)

_FEWEST_USES: Final = 2048
"""Bytes that are packed of as many elements as there are uses of each, at least.

One core took for products of 512 in single precision 0.9 of the time of tiles that copy, for 1024 x
16 by 16 x 1024 in double precision 0.3; with fewer uses, of 256 in single precision, 1.05 to 1.15.
"""

_FEWEST_PRODUCTS: Final = 2**26
"""Multiplications, times the bytes of an element, of a product from which on packing pays: it is a
launch more, and looked up at each call."""

_STREAMED: Final = 2**22
"""Bytes of a result that passes the caches by: lines that it fills are not read from memory first.

One core took 0.85 of the time for a product of 2048 in double precision so, 0.95 for 1024.
"""

_MOST_SUMS: Final = 2**26
"""Bytes of sums between slabs; of larger results panels of columns are made one after the other."""

_MOST_KEPT: Final = 2**27
"""Bytes that a thread keeps for the next product: memory that is new is slow to touch."""


@lru_cache(maxsize=64)
def packing_for(capabilities: Capabilities, accumulator: DType) -> Packing:
    """How to pack for a device whose work-items have cores to themselves.

    Parameters
    ----------
    capabilities : Capabilities
        Of the device.
    accumulator : DType
        What to sum in; operands are packed as that.
    """
    shape = _ROWS, 512
    micro = MicroShape.choose(capabilities.vector_bytes, accumulator, [shape], padding=True)
    size, cores = accumulator.itemsize, max(1, capabilities.compute_units)
    return Packing(micro, _SLAB // size, _ROWS, _DEPTH, _AHEAD // size, cores)


def packing_pays(product: Product, accumulator: DType, capabilities: Capabilities) -> bool:
    """Whether it does, by what was measured.

    Parameters
    ----------
    product : Product
        Its extents.
    accumulator : DType
        What to sum in.
    capabilities : Capabilities
        Of the device.
    """
    m, n, k = product.m, product.n, product.k
    size = accumulator.itemsize
    large = min(m, n) * size >= _FEWEST_USES and m * n * k * size >= _FEWEST_PRODUCTS
    return capabilities.lone_work_items and product.batch == 1 and large


def packed_steps(
    plan: Packing, args: tuple[Any, ...], accumulator: DType, empty: Empty
) -> Iterator[Step]:
    """The launches that make a product, one after the other, each with arguments and constants.

    Parameters
    ----------
    plan : Packing
        The tiles.
    args : tuple
        ``(alpha, a, b, beta, c, bias, out)``, of which `c` and `bias` are None.
    accumulator : DType
        The type to sum in.
    empty : callable
        Makes room for the packed operands.
    """
    alpha, a, b, _, _, _, out = args
    k, (m, n) = int(a.shape[1]), out.shape
    slabs = max(1, -(-k // plan.slab))
    depth = max(1, -(-k // slabs))
    width = _panel(plan, m, n, accumulator) if slabs > 1 else n
    left, right, kept = _rooms(plan, (m, width), depth, slabs > 1, accumulator, empty)
    plan = plan._replace(streaming=m * n * accumulator.itemsize >= _STREAMED)
    multiply = multiply_strips[groups(plan.groups(m)), _ALONE]
    for column in range(0, n, width):
        panel = slice(column, column + width)
        result = out[:, panel]
        turned = _turned(plan, result)
        for first in range(0, max(1, k), depth):
            slab = slice(first, first + depth)
            yield _packed_right(plan, b[slab, panel], right, turned)
            given = alpha, a[:, slab], left, right, kept, result, turned
            part = first == 0, first + depth >= k
            yield multiply, given, {"PLAN": plan, "PART": part}


def _panel(plan: Packing, rows: int, columns: int, accumulator: DType) -> int:
    """Columns of a result whose sums are kept between slabs at a time."""
    most = max(_FEWEST_USES, _MOST_SUMS // rows) // accumulator.itemsize
    panels = -(-columns // most)
    return _up(-(-columns // panels), _RIGHT[0] * plan.micro.columns)


def _rooms(
    plan: Packing,
    shape: tuple[int, int],
    depth: int,
    several: bool,
    accumulator: DType,
    empty: Empty,
) -> list[Any]:
    """Arrays for the strips of both operands, and for the sums between several slabs.

    They begin where lines of caches do.
    """
    (m, n), micro = shape, plan.micro
    strips, across = -(-m // micro.rows), -(-n // micro.columns)
    left = strips, depth, micro.rows
    right = _up(across, _RIGHT[0]), depth, micro.columns
    kept = across if several else 1, strips, micro.rows, micro.columns
    shapes = left, right, kept
    sizes = [_up(prod(shape), _LINE) for shape in shapes]
    room = empty((sum(sizes) + _LINE,), accumulator)
    address = device_of_arrays(room).view(room).address
    begins = accumulate(sizes, initial=-address // accumulator.itemsize % _LINE)
    return [room[at : at + prod(x)].reshape(x) for at, x in zip(begins, shapes, strict=False)]


def _turned(plan: Packing, out: Any) -> int:
    """Columns by which tiles begin before a result, so that all but the first begin with a line.

    None where its rows begin at different places in lines of the caches, or are short.
    """
    view = device_of_arrays(out).view(out)
    size, (row, element) = view.dtype.itemsize, view.strides
    alike = row % _LINE == 0 and element == size and view.shape[1] >= plan.micro.columns
    return int(view.address % _LINE // size) if alike else 0


def _packed_right(plan: Packing, x: Any, out: Any, turned: int) -> Step:
    (strips, depth, width), (count, most) = out.shape, _RIGHT
    tiles = strips // count * -(-depth // most)
    constants = {"DEPTH": most, "COLUMNS": count * width, "WIDTH": width}
    constants |= {"LANES": plan.micro.lanes}
    return pack_right[groups(tiles), _ALONE], (x, out, turned), constants


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
