"""Bandwidth traces: one number an interval, from JSON, CSV or NumPy files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable.errors import DataError, ShapeError

# From a trace to samples: the split in time order, scaling, windows and what follows them.

TRAINING_SHARE = 0.8
"""The first 80 % of the samples train, the rest test."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Takes `low` to 0 and `high` to 1; values beyond them go beyond."""

    low: float
    high: float

    @classmethod
    def fitted(cls, values: NDArray[np.float64]) -> Scaling:
        """The least and the greatest of the values become 0 and 1.

        Raises
        ------
        DataError
            If the values are all the same, so that nothing can be learnt from them.
        """
        low, high = float(values.min()), float(values.max())
        if low == high:
            raise DataError(f"the training part is {low:g} throughout: there is nothing to learn")
        return cls(low, high)

    @property
    def span(self) -> float:
        """What 1 stands for."""
        return self.high - self.low

    def apply(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """To normalised numbers."""
        return (values - self.low) / self.span

    def undo(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Back to the unit of the trace."""
        return values * self.span + self.low


@dataclass(frozen=True, slots=True)
class Samples:
    """Windows of a trace and what follows each.

    Attributes
    ----------
    inputs : ndarray of float64, shape (n, window)
    targets : ndarray of float64, shape (n, horizon)
    """

    inputs: NDArray[np.float64]
    targets: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, slots=True)
class Split:
    """Normalised samples, all of `train` earlier than the targets of `test`."""

    scaling: Scaling
    train: Samples
    test: Samples


def windows(values: NDArray[np.float64], window: int, horizon: int = 1) -> Samples:
    """Every run of `window` values with the `horizon` values after it, in time order.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
    window, horizon : int
        At least 1.

    Returns
    -------
    Samples
        ``n - window - horizon + 1`` of them.

    Raises
    ------
    ShapeError
        If there are not enough values for one sample.
    """
    _check_length(len(values), window, horizon, 1)
    runs = np.lib.stride_tricks.sliding_window_view(values, window + horizon)
    return Samples(runs[:, :window], runs[:, window:])


def split_samples(
    trace: NDArray[np.float64], window: int, horizon: int = 1, scaling: Scaling | None = None
) -> Split:
    """Split a trace in time order and normalise it.

    With a horizon of 1, the first 80 % of the samples train and the rest test. With a longer one,
    the training samples whose targets reach into the test part are left out.

    Parameters
    ----------
    trace : ndarray of float64, shape (n,)
    window, horizon : int
        Values that go into a forecast, and intervals that it covers.
    scaling : Scaling, optional
        A model's; else it is fitted on the training part alone.

    Raises
    ------
    ShapeError
        If the trace is too short for a training and a test sample.
    DataError
        If the training part is constant.
    """
    samples = len(trace) - window - horizon + 1
    _check_length(len(trace), window, horizon, horizon + 1)
    # The place of the first target that is tested.
    boundary = window + max(int(TRAINING_SHARE * samples), horizon)
    scaling = scaling or Scaling.fitted(trace[:boundary])
    values = scaling.apply(trace)
    return Split(
        scaling,
        windows(values[:boundary], window, horizon),
        windows(values[boundary - window :], window, horizon),
    )


def _check_length(length: int, window: int, horizon: int, samples: int) -> None:
    if window < 1 or horizon < 1:
        raise ShapeError(f"window {window}, horizon {horizon}: both are at least 1")
    needed = window + horizon + samples - 1
    if length < needed:
        raise ShapeError(
            f"a trace of {length} values is too short: windows of {window} and a horizon of "
            f"{horizon} take at least {needed}"
        )


# -- traces ----------------------------------------------------------------------------------------

_DELIMITERS: Final = ",;\t"
_Row = tuple[int, list[str]]
"""The number of a line, and its cells."""


def default_trace() -> NDArray[np.float64]:
    """The shipped synthetic trace: 3,394 intervals in Mbit/s, by ``portable_data.starlink``."""
    text = (files("portable_data") / "traces" / "starlink_like.json").read_text(encoding="utf-8")
    return checked_trace(json.loads(text))


def read_trace(path: str | Path, column: str | None = None) -> NDArray[np.float64]:
    """Read a trace from a file.

    Parameters
    ----------
    path : str or Path
        ``.json`` holds an array of numbers, ``.csv`` a column of them (comma, semicolon or tab
        between columns), ``.npy`` a one-dimensional array of real numbers.
    column : str, optional
        The heading of the CSV's column, or its number from 1. Not needed where there is only one.

    Returns
    -------
    ndarray of float64, shape (n,)

    Raises
    ------
    DataError
        If the file holds something else, or a number in it is NaN or infinite; the message names
        the file and the position.
    OSError
        If it cannot be read.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in _READERS:
        raise DataError(f"{path}: a trace is a file named .json, .csv or .npy")
    if column is not None and kind != ".csv":
        raise DataError(f"{path}: only a CSV has columns, and {column!r} was asked for")
    try:
        return _READERS[kind](path, column)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not text: {error}") from None


def checked_trace(values: Sequence[Any]) -> NDArray[np.float64]:
    """The values as an array, each known to be a finite number.

    Raises
    ------
    DataError
        If one is not; the message gives its position, from 0.
    """
    for i, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise DataError(f"value {i} is {_described(value)}; expected a number")
    try:
        trace = np.array(values, np.float64)
    except OverflowError:
        raise DataError("holds an integer beyond the range of float64") from None
    return _finite(trace, lambda i: f"value {i}")


def _finite(trace: NDArray[np.float64], name: Callable[[int], str]) -> NDArray[np.float64]:
    if trace.size == 0:
        raise DataError("holds no numbers")
    bad = np.flatnonzero(~np.isfinite(trace))
    if bad.size:
        first = int(bad[0])
        more = f", and {bad.size - 1} more are not finite" if bad.size > 1 else ""
        raise DataError(f"{name(first)} is {trace[first]}{more}; fill or cut gaps before")
    return trace


def _described(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


# -- JSON and NumPy -----------------------------------------------------------------------------


def _read_json(path: Path, _column: str | None) -> NDArray[np.float64]:
    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error}") from None
    except RecursionError:
        raise DataError("nested too deeply; expected an array of numbers") from None
    if not isinstance(values, list):
        raise DataError(f"holds {_described(values)}; expected an array of numbers")
    return checked_trace(values)


def _read_npy(path: Path, _column: str | None) -> NDArray[np.float64]:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, MemoryError) as error:
        raise DataError(f"no array of numbers in NumPy's format: {error}") from None
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iuf":
        raise DataError(f"holds {_kind(array)}; expected one dimension of real numbers")
    return _finite(array.astype(np.float64), lambda i: f"value {i}")


def _kind(array: Any) -> str:
    if isinstance(array, np.ndarray):
        return f"{array.dtype} of shape {array.shape}"
    return "an archive"


# -- CSV ----------------------------------------------------------------------------------------


def _read_csv(path: Path, column: str | None) -> NDArray[np.float64]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        start = "".join(islice(file, 2))
        file.seek(0)
        reader = csv.reader(file, delimiter=_delimiter(start))
        try:
            rows = _between_blanks([(reader.line_num, row) for row in reader if row])
        except csv.Error as error:
            raise DataError(f"line {reader.line_num}: {error}") from None
    if not rows:
        raise DataError("holds no numbers")
    heading = None if any(_number(cell) is not None for cell in rows[0][1]) else rows[0][1]
    index = _column_index(column, heading, len(rows[0][1]))
    return _column(_between_blanks(rows[1:]) if heading else rows, index)


def _between_blanks(rows: list[_Row]) -> list[_Row]:
    """Without rows of blanks before and after; one in the middle is a gap."""
    filled = [i for i, (_, row) in enumerate(rows) if any(map(str.strip, row))]
    return rows[filled[0] : filled[-1] + 1] if filled else []


def _delimiter(start: str) -> str:
    """The separator that the first lines hold most of; a comma where they hold none."""
    return max(_DELIMITERS, key=start.count)


def _column_index(column: str | None, heading: Sequence[str] | None, width: int) -> int:
    names = [name.strip() for name in heading or ()]
    if column is None and width == 1:
        return 0
    if column in names:
        return names.index(column)
    if column is not None and column.isdecimal() and 1 <= int(column) <= width:
        return int(column) - 1
    there = f"the columns are {', '.join(names)}" if names else f"there are {width} columns"
    asked = "name one by --column or column=" if column is None else f"none is {column!r}"
    raise DataError(f"{there}; {asked} (a heading, or a number from 1 to {width})")


def _column(rows: Sequence[_Row], index: int) -> NDArray[np.float64]:
    values: list[float] = []
    for line, row in rows:
        cell = row[index] if index < len(row) else ""
        value = _number(cell)
        if value is None:
            what = repr(cell) if cell.strip() else "nothing"
            raise DataError(f"line {line} has {what} in column {index + 1}; expected a number")
        values.append(value)
    return _finite(np.array(values), lambda i: f"line {rows[i][0]}, column {index + 1},")


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


_READERS: Final[dict[str, Callable[[Path, str | None], NDArray[np.float64]]]] = {
    ".json": _read_json,
    ".csv": _read_csv,
    ".npy": _read_npy,
}
