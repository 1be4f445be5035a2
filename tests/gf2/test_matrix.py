"""`BitMatrix`: made from and turned into other forms, kept in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from portable import gf2
from portable.backend import Device
from portable.errors import DataError, DTypeError, ShapeError

_SHAPES = [(0, 0), (0, 5), (3, 0), (1, 1), (3, 64), (5, 65), (7, 200)]


def dense_matrix(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) < 0.4


@pytest.mark.parametrize("shape", _SHAPES)
def test_forms(device: Device, shape: tuple[int, int]) -> None:
    a = dense_matrix(shape)
    matrix = gf2.BitMatrix.from_dense(a, device=device)
    assert matrix.shape == shape
    assert matrix.device is device
    np.testing.assert_array_equal(matrix.to_dense(), a)
    columns = [np.flatnonzero(row).tolist() for row in a]
    assert matrix.to_columns() == columns
    assert gf2.BitMatrix.from_columns(columns, shape[1], device=device) == matrix
    assert matrix.copy() == matrix
    if a.any():
        assert gf2.BitMatrix.zeros(shape, device=device) != matrix


@pytest.mark.parametrize("shape", _SHAPES)
def test_files(tmp_path: Path, shape: tuple[int, int]) -> None:
    matrix = gf2.BitMatrix.from_dense(dense_matrix(shape))
    matrix.save(tmp_path / "a.gf2")
    assert gf2.BitMatrix.load(tmp_path / "a.gf2") == matrix


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.gf2"
    gf2.BitMatrix.from_dense(dense_matrix((5, 65))).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])
    with pytest.raises(DataError, match="cut short"):
        gf2.BitMatrix.load(path)
    path.write_bytes(b"3 2 1\n")
    with pytest.raises(DataError, match="no file of packed bits"):
        gf2.BitMatrix.load(path)


def test_words_are_little_endian_bits() -> None:
    matrix = gf2.BitMatrix.from_columns([[0, 65], [63]], 66)
    assert matrix.to_words().tolist() == [[1, 2], [2**63, 0]]
    assert repr(gf2.BitMatrix.identity(2)).splitlines()[1:] == ["10", "01"]
    assert repr(matrix).startswith("BitMatrix 2x66 on ")


@pytest.mark.needs_processor
def test_what_is_refused() -> None:
    with pytest.raises(DataError, match="row 1 has column 7; there are columns 0 to 4"):
        gf2.BitMatrix.from_columns([[1], [7]], 5)
    with pytest.raises(DataError, match="row 0 has a column twice"):
        gf2.BitMatrix.from_columns([[1, 1]], 5)
    with pytest.raises(ShapeError, match="two dimensions"):
        gf2.BitMatrix.from_dense(np.zeros(3))
    with pytest.raises(ShapeError, match=r"take words of shape \(rows, 2\)"):
        gf2.BitMatrix(np.zeros((3, 1), np.uint64), 65)
    with pytest.raises(DTypeError, match="uint64"):
        gf2.BitMatrix(np.zeros((3, 1), np.int64), 64)
    with pytest.raises(ShapeError, match="cannot have -1"):
        gf2.BitMatrix.zeros((-1, 2))
