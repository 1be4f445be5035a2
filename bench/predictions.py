"""What a model of a device says beforehand of a problem, beside the time that was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from portable.backend import Capabilities
from portable.dtypes import dtype
from portable_bench.operations import OPERATIONS
from portable_bench.results import Cell


@dataclass(frozen=True, slots=True)
class Prediction:
    """A problem on a device; times are in seconds.

    Attributes
    ----------
    operation, device, dtype, size : str
        Which.
    measured, predicted : float
        Its time, and what the model gives it.
    """

    operation: str
    device: str
    dtype: str
    size: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """By how much of the time measured the other is off; above 0 where it is too long."""
        return self.predicted / self.measured - 1


def predictions(
    cells: Iterable[Cell], capabilities: Mapping[str, Capabilities]
) -> list[Prediction]:
    """One per problem of an operation with such a model that was measured.

    Parameters
    ----------
    cells : iterable of Cell
        Problems and their times.
    capabilities : mapping
        Of the devices, by name.

    Returns
    -------
    list of Prediction
        In the order of the cells.
    """
    rows = []
    for cell in cells:
        timed = next((outcome for outcome in cell.ours if outcome.timed), None)
        known, can = OPERATIONS.get(cell.operation), capabilities.get(cell.device)
        if timed is None or known is None or can is None:
            continue
        seconds = known.predicted(cell.size, dtype(cell.dtype), can)
        if seconds is not None:
            where = (cell.operation, cell.device, cell.dtype, cell.label)
            rows.append(Prediction(*where, timed.seconds, seconds))
    return rows
