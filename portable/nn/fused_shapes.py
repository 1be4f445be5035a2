"""How small networks are cut up for a device, and which ones are small enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.nn.layout import Layout

__all__ = ["Shape", "forward_shape", "layer_tuples", "training_shape", "widest"]

_MOST_ROWS: Final = 256
_FEWEST_ROWS: Final = 16


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
    """

    rows: int
    lanes: int
    units: int
    vectors: int
    tile: tuple[int, int]
    split: int
    pad: int
    size: int

    def forward(self) -> dict[str, Any]:
        """The constants of a forward pass."""
        return {
            "ROWS": self.rows,
            "LANES": self.lanes,
            "UNITS": self.units,
            "VECTORS": self.vectors,
            "PAD": self.pad,
            "SIZE": self.size,
        }

    def training(self) -> dict[str, Any]:
        """The constants of an epoch."""
        return {**self.forward(), "TILE": self.tile, "SPLIT": self.split}


def layer_tuples(layout: Layout) -> tuple[tuple[int, int, int, int], ...]:
    """The layers as the kernels take them."""
    return tuple((x.inputs, x.outputs, x.weight, x.bias) for x in layout.layers)


def widest(sizes: Sequence[int]) -> tuple[int, int]:
    """The most units of every second layer from the input on, and of those between them."""
    return max(sizes[0::2]), max(sizes[1::2])


def _on_processor(can: Capabilities) -> bool:
    """Whether a workgroup is one work-item with wide registers."""
    return can.kind == "cpu"


def _room(can: Capabilities) -> int:
    return max(can.local_memory, can.local_memory_opt_in)


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

    `kind` is the type that the network computes in.
    """
    size = kind.itemsize
    lanes = can.vector_bytes // size
    weights = sum(x.inputs * x.outputs for x in layout.layers)
    if weights > _most_weights(can):
        return None
    if _on_processor(can):
        wanted = min(64, -(-count // can.compute_units))
        rows = _rows_within(_room(can), sum(widest(sizes)) * size, wanted, lanes, 0)
        return Shape(rows, lanes, 4, 1, (1, 1), 1, 0, 1) if rows else None
    lanes = max(2, lanes // 2)
    room = _room(can) - layout.length * size
    wanted = 32
    rows = _rows_within(room, sum(widest(sizes)) * size, wanted, lanes, lanes)
    items = min(64, can.max_workgroup)
    return Shape(rows, lanes, 4, 1, (1, 1), 1, lanes, items) if rows else None


def _most_weights(can: Capabilities) -> int:
    """Beyond that many weights a product of matrices per layer is faster."""
    return 16_384 if _on_processor(can) else 8_192


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
    """For batches of so many samples; None if layers one by one do better."""
    weights = sum(x.inputs * x.outputs for x in layout.layers)
    if 3 * weights * batch > _most_products(can):
        return None
    size = kind.itemsize
    lanes = can.vector_bytes // size
    pad = 0 if _on_processor(can) else lanes
    items = 1 if _on_processor(can) else _workgroup(can, sizes, batch)
    fixed = ((2 + max(slots, 1)) * layout.length + items) * size
    row = (sum(sizes) + 1 + targets) * size
    rows = _rows_within(_room(can) - fixed, row, batch, lanes, pad)
    if not rows:
        return None
    if _on_processor(can):
        return Shape(min(rows, 128), lanes, 4, 1, (2, 4), 1, pad, 1)
    split = min(8, can.sub_group_size)
    return Shape(rows, lanes, 4, 1, (4, 4), split, pad, items)


def _most_products(can: Capabilities) -> float:
    """Beyond that many multiplications a step, one workgroup is slower than the whole device."""
    return 4e6 if _on_processor(can) else 1.5e7


def _workgroup(can: Capabilities, sizes: Sequence[int], batch: int) -> int:
    """A power of two, about as many as the widest layer has work for."""
    work = max(sizes) * min(batch, _MOST_ROWS) // prod((4, 4))
    items = 32
    while items * 2 <= min(work, 512, can.max_workgroup):
        items *= 2
    return items
