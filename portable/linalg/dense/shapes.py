"""How the reduction of a dense matrix to a band is laid out on a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.tune.space import Parameters, Space
from portable.tune.table import lookup, state

_NARROWEST: Final = 16
_GROUP_ROWS: Final = 32
_PADDING_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class DenseShape:
    """One layout.

    Attributes
    ----------
    panel : int
        Columns of a panel at most, a power of two.
    fan : int
        Chunks of `panel` rows that a node of the tree takes.
    lanes : int
        Columns of a vector where one work-item factors a node; 1 where a workgroup does.
    columns : int
        Columns that each work-item of such a workgroup holds.
    items : (int, int)
        That workgroup: rows side by side, columns side by side.
    strip : int
        Columns (or rows) of the matrix that a workgroup combines.
    workgroup : int
        Work-items that do.
    padding : int
        Elements between rows in local memory.
    climb : bool
        Whether one launch goes through all levels of the tree; else each level is one.
    """

    panel: int
    fan: int
    lanes: int
    columns: int
    items: tuple[int, int]
    strip: int
    workgroup: int
    padding: int
    climb: bool

    @property
    def height(self) -> int:
        """Rows of a node."""
        return self.panel * self.fan

    @property
    def beyond(self) -> int:
        """Rows and columns of zeros behind a matrix, at least: in vectors all blocks are whole."""
        return 0 if self.lanes == 1 else max(self.strip, self.panel + 2 * self.lanes)

    def room(self, m: int, n: int) -> tuple[int, int]:
        """Rows and columns that a matrix is given.

        In vectors rows are an odd number of them: a cache has one place for lines 4 KiB apart.
        """
        if self.lanes == 1:
            return m, n
        return m + self.beyond, self.lanes * (-(-(n + self.beyond) // self.lanes) | 1)


def local_elements(panel: int, fan: int, strip: int, padding: int) -> int:
    """Elements of local memory that the combining workgroup takes at most.

    Parameters
    ----------
    panel, fan, strip, padding : int
        As in `DenseShape`.
    """
    reflectors = fan * panel * (panel + padding)
    block = fan * strip * (panel + padding)
    return reflectors + block + panel * panel + strip * (panel + padding)


def elements_alone(panel: int, fan: int, strip: int) -> int:
    """Elements of local memory that a work-item alone takes, to factor a node or to combine.

    Parameters
    ----------
    panel, fan, strip : int
        As in `DenseShape`.
    """
    return max(fan * panel * panel, panel * (2 * strip + panel))


def _padding(dtype: DType, capabilities: Capabilities) -> int:
    """What spreads rows over the banks of a GPU's local memory, in whole 16-byte vectors."""
    return _PADDING_BYTES // dtype.itemsize if capabilities.local_memory_dedicated else 0


def _fits(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    panel, fan, strip = choice["PANEL"], choice["FAN"], choice["STRIP"]
    if choice["BANDWIDTH"] % panel or (choice["WORKGROUP"] == 1) != capabilities.single_work_items:
        return False
    room = capabilities.local_memory_most
    if capabilities.single_work_items:
        return elements_alone(panel, fan, strip) * dtype.itemsize <= room
    needed = local_elements(panel, fan, strip, _padding(dtype, capabilities)) * dtype.itemsize
    items = min(_GROUP_ROWS, capabilities.sub_group_size) * panel // choice["COLUMNS"]
    return needed <= room and max(items, choice["WORKGROUP"]) <= capabilities.max_workgroup


SPACE: Final = Space(
    "svdvals",
    {
        "BANDWIDTH": (8, 16, 32, 64, 128),
        "PANEL": (8, 16, 32, 64),
        "FAN": (2, 4, 6, 7, 8, 16),
        "COLUMNS": (1, 2, 4, 8),
        "STRIP": (16, 32, 64, 128),
        "WORKGROUP": (1, 64, 128, 256),
    },
    _fits,
    {"FROM": 0},
)


def tuned(dtype: DType, n: int, capabilities: Capabilities) -> tuple[Parameters, ...]:
    """The table's choices that the device has room for, the best first.

    The table lists choices from large matrices to small, each good down to its ``FROM``.

    Parameters
    ----------
    dtype : DType
        What is computed in.
    n : int
        The order of the matrices.
    capabilities : Capabilities
        Of the device.
    """
    return _tuned(dtype, n, capabilities, state())


@lru_cache(maxsize=1024)
def _tuned(dtype: DType, n: int, capabilities: Capabilities, table: Any) -> tuple[Parameters, ...]:
    """As of one state of the user's table."""
    choices = [c for c in lookup(SPACE, dtype, capabilities) if _fits(c, dtype, capabilities)]
    return tuple(c for c in choices if n >= c["FROM"]) or (choices[-1],)


def dense_shape(
    choice: Parameters, bandwidth: int, dtype: DType, capabilities: Capabilities
) -> DenseShape:
    """The layout for a bandwidth by a choice of tuned parameters.

    Parameters
    ----------
    choice : dict
        The parameters.
    bandwidth : int
        Superdiagonals that are to be left.
    dtype : DType
        What is computed in.
    capabilities : Capabilities
        Of the device.
    """
    return _shape(tuple(choice.items()), bandwidth, dtype, capabilities)


@lru_cache(maxsize=1024)
def _shape(
    chosen: tuple[tuple[str, int], ...], bandwidth: int, dtype: DType, capabilities: Capabilities
) -> DenseShape:
    """The very same for the same choice, by which launches are recognised."""
    choice = dict(chosen)
    panel = min(choice["PANEL"], max(_NARROWEST, 1 << (bandwidth - 1).bit_length()))
    climb = capabilities.memory_orders == "acq_rel"
    padding = _padding(dtype, capabilities)
    strip, fan = choice["STRIP"], choice["FAN"]
    if capabilities.single_work_items:
        lanes = min(panel, max(capabilities.vector_bytes // dtype.itemsize, 2))
        return DenseShape(panel, fan, lanes, 1, (1, 1), strip, 1, padding, climb)
    columns = min(choice["COLUMNS"], panel)
    rows = capabilities.sub_group_size if capabilities.sub_group_size > 1 else _GROUP_ROWS
    items = (min(rows, panel * fan), panel // columns)
    return DenseShape(panel, fan, 1, columns, items, strip, choice["WORKGROUP"], padding, climb)
