from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from portable.errors import DataError
from portable.forecast.traces import checked_trace, default_trace, read_trace
from portable_data.starlink import (
    LENGTH,
    MAXIMUM,
    MEAN,
    MINIMUM,
    REALLOCATION,
    SEED,
    STD,
    synthetic_trace,
)

VALUES = [240.5, 9.0, 406.0, 250.0]


def _autocorrelation(trace: NDArray[np.float64], lag: int) -> float:
    centred = trace - trace.mean()
    return float((centred[lag:] * centred[: len(trace) - lag]).mean() / trace.var())


# -- the generator ------------------------------------------------------------------------------


def test_the_shipped_trace_is_the_generators() -> None:
    np.testing.assert_array_equal(default_trace(), synthetic_trace(LENGTH, SEED))


@pytest.mark.parametrize("seed", [SEED, 1, 2, 3])
def test_every_trace_has_the_mean_deviation_and_range(seed: int) -> None:
    trace = synthetic_trace(seed=seed)
    assert trace.mean() == pytest.approx(MEAN, abs=0.1)
    assert trace.std() == pytest.approx(STD, abs=0.1)
    assert MINIMUM <= trace.min() < MINIMUM + 50
    assert MAXIMUM - 50 < trace.max() <= MAXIMUM


def test_the_shipped_trace_is_correlated_like_a_satellite_link() -> None:
    trace = default_trace()
    assert trace.shape == (3394,)
    assert _autocorrelation(trace, 1) == pytest.approx(0.915, abs=0.01)
    assert _autocorrelation(trace, 10) == pytest.approx(0.60, abs=0.01)
    lags = [_autocorrelation(trace, lag) for lag in range(1, 11)]
    assert sorted(lags, reverse=True) == lags


def test_the_shipped_trace_repeats_itself_a_little_from_one_allocation_to_the_next() -> None:
    before, at, after = (
        _autocorrelation(default_trace(), REALLOCATION + offset) for offset in (-1, 0, 1)
    )
    assert at > (before + after) / 2 + 0.01


def test_one_step_in_eleven_jumps() -> None:
    jumps = np.abs(np.diff(default_trace())) > 50
    assert jumps.mean() == pytest.approx(0.09, abs=0.01)


def test_a_trace_depends_on_the_seed_alone() -> None:
    np.testing.assert_array_equal(synthetic_trace(100, 5), synthetic_trace(100, 5))
    assert (synthetic_trace(100, 5) != synthetic_trace(100, 6)).any()


def test_the_shortest_trace_spans_two_allocations() -> None:
    assert np.isfinite(synthetic_trace(30)).all()
    for length, seed in [(29, 0), (30, -1)]:
        with pytest.raises(ValueError, match=f"length {length}, seed {seed}"):
            synthetic_trace(length, seed)


# -- files --------------------------------------------------------------------------------------


def _json(path: Path) -> None:
    path.write_text(json.dumps(VALUES))


def _csv(text: str) -> Callable[[Path], None]:
    return lambda path: _write(path, text)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _npy(dtype: str) -> Callable[[Path], None]:
    return lambda path: np.save(path, np.array(VALUES, dtype))


@pytest.mark.parametrize(
    ("name", "write", "column"),
    [
        ("a.json", _json, None),
        ("a.JSON", _json, None),
        ("a.npy", _npy("f8"), None),
        ("a.npy", _npy(">f4"), None),
        ("a.csv", _csv("240.5\n9\n406\n250\n"), None),
        ("a.csv", _csv("\ufeffmbps\r\n240.5\r\n9\r\n\r\n406\r\n250"), None),
        ("a.csv", _csv('mbps\n""\n240.5\n9\n406\n250\n  \n""\n'), None),
        ("a.csv", _csv("time,mbps\n0,240.5\n1,9\n2,406\n3,250\n"), "mbps"),
        ("a.csv", _csv("time;mbps\n0;240.5\n1;9\n2;406\n3;250\n"), "2"),
        ("a.csv", _csv('"240.5"\t0\n9\t1\n406\t2\n250\t3\n'), "1"),
    ],
)
def test_traces_are_read_from_each_kind_of_file(
    tmp_path: Path, name: str, write: Callable[[Path], None], column: str | None
) -> None:
    write(tmp_path / name)
    trace = read_trace(tmp_path / name, column)
    assert trace.dtype == np.float64
    np.testing.assert_array_equal(trace, VALUES)


def test_integers_of_numpy_become_floats(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([1, 2, 3], np.uint8))
    np.testing.assert_array_equal(read_trace(tmp_path / "a.npy"), [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "1", "named .json, .csv or .npy"),
        ("a.json", "[1, 2", "not JSON"),
        ("a.json", "", "not JSON"),
        ("a.json", '{"a": 1}', "expected an array of numbers"),
        ("a.json", "7", "expected an array of numbers"),
        ("a.json", "[]", "holds no numbers"),
        ("a.json", '[1, "2", 3]', 'value 1 is "2"; expected a number'),
        ("a.json", "[1, 2, null]", "value 2 is null"),
        ("a.json", "[true]", "value 0 is true"),
        ("a.json", "[[1, 2]]", r"value 0 is \[1, 2\]"),
        ("a.json", "[1, NaN, 2]", "value 1 is nan; fill"),
        ("a.json", "[1, NaN, -Infinity]", "value 1 is nan, and 1 more"),
        ("a.json", f"[1{400 * '0'}]", "beyond the range"),
        ("a.json", 100000 * "[", "nested too deeply"),
        ("a.csv", "", "holds no numbers"),
        ("a.csv", "mbps\n", "holds no numbers"),
        ("a.csv", "mbps\n1\nfast\n", "line 3 has 'fast' in column 1"),
        ("a.csv", "mbps\n1\n\nnan\n", "line 4, column 1, is nan"),
        ("a.csv", 'mbps\n1\n""\n2\n', "line 3 has nothing in column 1"),
        ("a.csv", "a,b\n1,2\n", "the columns are a, b; name one"),
        ("a.csv", "1,2\n3,4\n", "there are 2 columns; name one"),
        ("a.npy", "no array", "NumPy's format"),
    ],
)
def test_files_that_hold_no_trace_are_named(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_trace(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize("column", ["c", "0", "3"])
def test_an_unknown_column_is_answered_with_the_known_ones(tmp_path: Path, column: str) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=f"the columns are a, b; none is '{column}'"):
        read_trace(tmp_path / "a.csv", column)


def test_a_row_that_is_too_short_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(DataError, match="line 3 has nothing in column 2"):
        read_trace(tmp_path / "a.csv", "b")


def test_only_a_csv_has_columns(tmp_path: Path) -> None:
    _json(tmp_path / "a.json")
    with pytest.raises(DataError, match="only a CSV has columns"):
        read_trace(tmp_path / "a.json", "b")


@pytest.mark.parametrize(
    "array", [np.ones((2, 2)), np.array([1j]), np.array([True]), np.array(["1"]), np.float64(3)]
)
def test_arrays_of_another_kind_are_refused(tmp_path: Path, array: NDArray[np.generic]) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(DataError, match="expected one dimension of real numbers"):
        read_trace(tmp_path / "a.npy")


def test_an_array_that_declares_more_than_there_is(tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(64))
    with pytest.raises(DataError, match="no array of numbers"):
        read_trace(tmp_path / "a.npy")


def test_pickled_objects_and_archives_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(DataError, match="NumPy's format"):
        read_trace(tmp_path / "a.npy")
    np.savez(tmp_path / "b.npz", np.ones(3))
    (tmp_path / "b.npz").rename(tmp_path / "b.npy")
    with pytest.raises(DataError, match="holds an archive"):
        read_trace(tmp_path / "b.npy")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    for name in ("a.json", "a.csv"):
        (tmp_path / name).write_bytes(b"\xff\xfe\x00")
        with pytest.raises(DataError, match="not text"):
            read_trace(tmp_path / name)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_trace(tmp_path / "a.json")


def test_long_values_are_cut_in_messages() -> None:
    with pytest.raises(DataError, match=r'value 0 is "a{36}\.\.\.; expected'):
        checked_trace(["a" * 100])
