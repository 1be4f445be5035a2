"""How small networks are cut up for a device, and which ones are small enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.nn.layout import Layout

_MOST_ROWS: Final = 256
_FEWEST_ROWS: Final = 16
_ALIGNMENT: Final = 6 * 128
"""Bytes that may lie between the local arrays of a kernel, each of which begins at a line."""

# How often sums are halved in `portable.nn.fused`.
_MOST_LANES: Final = 2**5
_MOST_ITEMS: Final = 2**10
_MOST_SHARES: Final = 2**6

# Beyond these, a product of matrices per layer is faster than one kernel.
_MOST_WEIGHTS: Final = 131_072
"""Weights that a processor's nearer caches hold."""
_MOST_FORWARD: Final = 6e6
"""Multiplications of a forward pass per compute unit of a GPU."""
_MOST_ON_ONE_UNIT: Final = 2e7
"""Multiplications of a training step by one workgroup on a GPU."""
_MOST_ON_PROCESSOR: Final = 5e7
"""Multiplications of a training step by one core."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The constants of the kernels that a device decides.

    Attributes
    ----------
    rows : int
        Samples that a workgroup holds at a time.
    lanes, units, vectors : int
        A work-item does `units` outputs of `vectors` vectors of `lanes` samples at a time.
    tile : (int, int)
        Outputs and inputs of the tile of weights whose gradients a work-item sums.
    split : int
        Work-items that share such a tile.
    pad : int
        Columns added to each row in local memory, so that neighbouring rows lie in other banks.
    size : int
        Work-items of a workgroup.
    copy, hold : bool
        Whether parameters, and an optimizer's state, come into local memory.
    whole : bool
        Whether a batch goes through in one piece.

    Raises
    ------
    ValueError
        For what the kernels do not hold for.
    """

    rows: int
    lanes: int
    units: int
    vectors: int
    tile: tuple[int, int]
    split: int
    pad: int
    size: int
    copy: bool
    hold: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        _require(self.rows % (self.lanes * self.vectors) == 0, "samples go in whole vectors")
        for name in ("lanes", "size", "split"):
            of_two = getattr(self, name).bit_count() == 1
            _require(of_two, f"sums go by halves: {name} is a power of two")
        _require(2 <= self.lanes <= _MOST_LANES, f"a vector has 2 to {_MOST_LANES} lanes")
        _require(self.size <= _MOST_ITEMS, f"a workgroup has at most {_MOST_ITEMS} work-items")
        _require(self.split <= min(self.size, _MOST_SHARES), "a tile's sharers are a sub-group")


def _require(holds: bool, what: str) -> None:
    """What the kernels take for granted of their shape."""
    if not holds:
        raise ValueError(f"a shape that no kernel of networks was made for: {what}")


def _on_processor(can: Capabilities) -> bool:
    """Whether a workgroup is one work-item with wide registers."""
    return can.single_work_items


def products(layout: Layout) -> int:
    """Multiplications for one sample of linear layers."""
    return sum(prod(parts[0].shape) for parts in layout.layers if parts)


def _room(can: Capabilities) -> int:
    return max(can.local_memory, can.local_memory_opt_in) - _ALIGNMENT


def _rows_within(room: int, bytes_per_row: int, wanted: int, lanes: int, pad: int) -> int:
    """The most rows that fit, up to those wanted, in whole vectors; 0 if there are too few."""
    most = room // bytes_per_row - pad
    rows = min(-(-wanted // lanes) * lanes, _MOST_ROWS, most // lanes * lanes)
    return rows if rows >= min(_FEWEST_ROWS, -(-wanted // lanes) * lanes) else 0


# -- forward ------------------------------------------------------------------------------------


def forward_shape(
    can: Capabilities, layout: Layout, sizes: Sequence[int], kind: DType, count: int
) -> Shape | None:
    """For `count` samples through a network; None if layers one by one do better.

    Parameters
    ----------
    can : Capabilities
        Of the device.
    layout : Layout
        Of the parameters.
    sizes : sequence of int
        Widths of the input and of every layer.
    kind : DType
        Of the network.
    count : int
        Samples.
    """
    computed = kind.register
    size = computed.itemsize
    lanes = can.vector_bytes // size
    row = (max(sizes[0::2]) + max(sizes[1::2])) * size
    if _on_processor(can):
        if products(layout) > _MOST_WEIGHTS:
            return None
        wanted = min(64, -(-count // can.compute_units))
        rows = _rows_within(_room(can), row, wanted, lanes, 0)
        copy = kind is not computed  # rather than convert each weight over and over
        return Shape(rows, lanes, 4, 1, (1, 1), 1, 0, 1, copy) if rows else None
    if products(layout) * count > _MOST_FORWARD * can.compute_units:
        return None
    rows = _rows_within(_room(can) - layout.length * size, row, min(32, count), lanes, lanes)
    units = 2 if max(sizes) <= 32 else 4
    items = min(128, can.max_workgroup)
    return Shape(rows, lanes, units, 1, (1, 1), 1, lanes, items, True) if rows else None


# -- training -----------------------------------------------------------------------------------


def training_shape(
    can: Capabilities,
    layout: Layout,
    sizes: Sequence[int],
    kind: DType,
    *,
    batch: int,
    slots: int,
    targets: int,
) -> Shape | None:
    """For batches of so many samples; None if layers one by one do better.

    Parameters
    ----------
    can, layout, sizes, kind
        As of `forward_shape`.
    batch : int
        Samples of a step.
    slots : int
        Numbers that the optimizer keeps for each parameter.
    targets : int
        Numbers that a sample is compared with.
    """
    size = kind.register.itemsize
    lanes = can.vector_bytes // size
    row = (sum(sizes) + 1 + targets) * size
    work = 3 * products(layout) * batch
    if _on_processor(can):
        # Its local memory is ordinary memory, so that nothing is gained by copies there.
        rows = _rows_within(_room(can) - layout.length * size, row, min(batch, 128), lanes, 0)
        small = work <= _MOST_ON_PROCESSOR
        whole = rows >= batch
        made = rows and small
        return Shape(rows, lanes, 4, 1, (2, 4), 1, 0, 1, False, whole=whole) if made else None
    items = _workgroup(can, sizes, batch)
    wanted = min(batch, _MOST_ROWS // 2)
    for hold in (True, False):
        fixed = ((2 + hold * slots) * layout.length + items) * size
        rows = _rows_within(_room(can) - fixed, row, batch, lanes, lanes)
        if rows >= wanted:
            break
    # Fewer rows keep fewer work-items busy.
    if not rows or work > _MOST_ON_ONE_UNIT * min(1, rows / wanted):
        return None
    split = min(8, can.sub_group_size)
    return Shape(rows, lanes, 4, 1, (4, 4), split, lanes, items, True, hold, rows >= batch)


def _workgroup(can: Capabilities, sizes: Sequence[int], batch: int) -> int:
    """A power of two, about as many as the widest layer has work for."""
    work = max(sizes) * min(batch, _MOST_ROWS) // prod((4, 4))
    items = 32
    while items * 2 <= min(work, 512, can.max_workgroup):
        items *= 2
    return items
