"""How times grow with the extents of a problem, and what a performance model makes of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from portable_bench.operations import OPERATIONS
from portable_bench.results import Cell, Outcome

_FEWEST: Final = 3
_Points = list[tuple[Cell, Outcome]]


@dataclass(frozen=True, slots=True)
class Curve:
    """Whose times; `name` is the contender's."""

    operation: str
    device: str
    dtype: str
    name: str


@dataclass(frozen=True, slots=True)
class Fit(Curve):
    """Time as a product of powers of the extents.

    Attributes
    ----------
    powers : dict
        By name of the extent.
    deviation : float
        Root mean square of the relative distance of the points from it.
    points : int
        How many there are.
    """

    powers: dict[str, float]
    deviation: float
    points: int


@dataclass(frozen=True, slots=True)
class Model(Curve):
    """Time as a sum of what the operation's performance model counts.

    Attributes
    ----------
    seconds : dict
        By name of what is counted, the time that each takes; 0 for what the times do not show.
    deviation, worst : float
        Median and largest relative distance of the points from it.
    points : int
        How many there are.
    """

    seconds: dict[str, float]
    deviation: float
    worst: float
    points: int


def fits(cells: Iterable[Cell]) -> list[Fit]:
    """One per contender with sizes enough; by least squares of logarithms."""
    fitted = (_fit(key, points) for key, points in _curves(cells).items())
    return [fit for fit in fitted if fit is not None]


def models(cells: Iterable[Cell]) -> list[Model]:
    """One per contender of ours with sizes enough, where the operation has a model.

    The times are fitted by least squares of relative errors, none of them negative.
    """
    curves = _curves(cells).items()
    fitted = (_model(key, points) for key, points in curves if not points[0][1].peer)
    return [model for model in fitted if model is not None]


def _curves(cells: Iterable[Cell]) -> dict[tuple[str, str, str, str], _Points]:
    curves: dict[tuple[str, str, str, str], _Points] = defaultdict(list)
    for cell in cells:
        for outcome in cell.outcomes:
            if outcome.timed:
                key = (cell.operation, cell.device, cell.dtype, outcome.name)
                curves[key].append((cell, outcome))
    return curves


def _fit(key: tuple[str, str, str, str], points: _Points) -> Fit | None:
    if len({len(cell.size) for cell, _ in points}) > 1:
        return None  # no results of one operation
    extents = np.log([cell.size for cell, _ in points])
    columns = _varying(key[0], extents)
    if len(points) < max(_FEWEST, len(columns) + 2) or not columns:
        return None
    system = np.column_stack([np.ones(len(points)), *columns.values()])
    times = np.log([outcome.seconds for _, outcome in points])
    solution, _, rank, _ = np.linalg.lstsq(system, times)
    if rank < system.shape[1]:
        return None
    rest = np.exp(times - system @ solution) - 1
    powers = dict(zip(columns, map(float, solution[1:]), strict=True))
    return Fit(*key, powers, float(np.sqrt(np.mean(rest**2))), len(points))


def _varying(operation: str, extents: Any) -> dict[str, Any]:
    """By name the extents that differ among the sizes; those that always agree count once."""
    known = OPERATIONS.get(operation)
    count = extents.shape[1]
    names: Sequence[str] = [f"extent {i}" for i in range(count)]
    if known and len(known.axes) == count:
        names = known.axes
    values: dict[str, Any] = {}
    for name, column in zip(names, extents.T, strict=True):
        new = not any(np.array_equal(column, other) for other in values.values())
        if new and np.ptp(column) > 0:
            values[name] = column
    return values


def _model(key: tuple[str, str, str, str], points: _Points) -> Model | None:
    names = list(points[0][0].model)
    if not names or len({cell.size for cell, _ in points}) < len(names) + 1:
        return None
    if any(cell.model.keys() != set(names) for cell, _ in points):
        return None
    from scipy.optimize import nnls

    counts = np.array([[cell.model[name] for name in names] for cell, _ in points])
    times = np.array([outcome.seconds for _, outcome in points])
    relative = counts / times[:, None]
    scale = relative.max(0)
    each = nnls(relative / scale, np.ones(len(times)))[0] / scale
    rest = np.abs(counts @ each / times - 1)
    costs = dict(zip(names, map(float, each), strict=True))
    return Model(*key, costs, float(np.median(rest)), float(rest.max()), len(points))
