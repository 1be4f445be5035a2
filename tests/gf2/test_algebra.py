"""Products, echelon forms and what follows from them, against plain elimination."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import portable
from portable import gf2
from portable.backend import Device
from portable.errors import DataError, DeviceMismatchError, ShapeError
from portable.gf2.blocks import block_rows
from portable.gf2.tuning import Shape
from tests.gf2.reference import row_reduced

_SHAPES = [(0, 0), (0, 4), (4, 0), (1, 1), (3, 130), (130, 3), (64, 64), (100, 100), (70, 150)]


def low_rank(shape: tuple[int, int], seed: int) -> np.ndarray:
    """A matrix of which many rows are sums of others."""
    rng = np.random.default_rng(seed)
    inner = int(rng.integers(0, max(min(shape), 1) + 1))
    left, right = rng.random((shape[0], inner)) < 0.5, rng.random((inner, shape[1])) < 0.5
    return product(left, right)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype(np.float64) @ b.astype(np.float64)) % 2 == 1


def check_all(a: np.ndarray, device: Device) -> None:
    matrix = gf2.BitMatrix.from_dense(a, device=device)
    expected = row_reduced(a)
    pivots = [int(np.flatnonzero(row)[0]) for row in expected if row.any()]
    rows, found = gf2.row_echelon(matrix, reduced=True)
    np.testing.assert_array_equal(rows.to_dense(), expected)
    assert found.tolist() == pivots
    check_echelon(a, matrix, pivots)
    basis = gf2.nullspace(matrix)
    assert basis.shape == (a.shape[1], a.shape[1] - len(pivots))
    assert not product(a, basis.to_dense()).any()
    assert gf2.rank(basis) == basis.shape[1]
    right = product(a, np.random.default_rng(1).random((a.shape[1], 70)) < 0.5)
    x = gf2.solve(matrix, gf2.BitMatrix.from_dense(right, device=device))
    np.testing.assert_array_equal(product(a, x.to_dense()), right)
    if right.shape[1]:
        column = gf2.solve(matrix, right[:, 0])
        np.testing.assert_array_equal(column, x.to_dense()[:, 0])
        np.testing.assert_array_equal(gf2.matmul(matrix, column), right[:, 0])


def check_echelon(a: np.ndarray, matrix: gf2.BitMatrix, pivots: list[int]) -> None:
    """Any echelon form of the same row space will do."""
    rows, found = gf2.row_echelon(matrix)
    assert found.tolist() == pivots
    assert gf2.rank(matrix) == len(pivots)
    dense = rows.to_dense()
    leads = [int(np.flatnonzero(row)[0]) for row in dense if row.any()]
    assert leads == pivots
    assert not dense[len(pivots) :].any()
    np.testing.assert_array_equal(row_reduced(dense), row_reduced(a))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(m=st.integers(1, 200), n=st.integers(1, 200), seed=st.integers(0, 2**32 - 1))
@example(m=65, n=64, seed=0)
def test_everything_that_elimination_gives(device: Device, m: int, n: int, seed: int) -> None:
    if device.backend == "simulator":
        m, n = 1 + m // 16, 1 + n // 2
    check_all(low_rank((m, n), seed), device)


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (4, 0)])
def test_empty_ones(shape: tuple[int, int]) -> None:
    check_all(np.zeros(shape, bool), gf2.BitMatrix.zeros((1, 1)).device)


@pytest.mark.parametrize(
    ("m", "k", "n"), [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (5, 70, 130), (100, 64, 65)]
)
def test_products(device: Device, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m + k + n)
    a, b = rng.random((m, k)) < 0.5, rng.random((k, n)) < 0.5
    left, right = (gf2.BitMatrix.from_dense(x, device=device) for x in (a, b))
    np.testing.assert_array_equal(gf2.matmul(left, right).to_dense(), product(a, b))
    np.testing.assert_array_equal(gf2.transpose(left).to_dense(), a.T)


@pytest.mark.parametrize("height", [16, 48])
def test_blocks_of_any_height(device: Device, monkeypatch: pytest.MonkeyPatch, height: int) -> None:
    monkeypatch.setattr("portable.gf2.blocks.block_rows", lambda *_: height)
    a, b = (gf2.random(shape, seed=1, device=device) for shape in ((100, 130), (130, 150)))
    shape = Shape(4, 2, 1, (2, 16), 64, 32)
    expected = product(a.to_dense(), b.to_dense())
    np.testing.assert_array_equal(gf2.matmul(a, b, shape=shape).to_dense(), expected)


def test_rounds_of_workgroups_are_even() -> None:
    shape = Shape(6, 16, 2, (8, 32), 512, 256)
    assert block_rows(shape, 512 * 264, 1, 132, 2) == 512
    assert block_rows(shape, 512 * 264 + 1, 1, 132, 2) < 512
    assert block_rows(shape, 54274, 1, 132, 2) == 416
    assert block_rows(shape, 1, 1, 132, 2) == 32


def test_large_products(device: Device) -> None:
    size = 80 if device.backend == "simulator" else 1100
    a, b = (gf2.random((size, size), seed=s, device=device) for s in (1, 2))
    expected = product(a.to_dense(), b.to_dense())
    np.testing.assert_array_equal(gf2.matmul(a, b).to_dense(), expected)


def test_inverses(device: Device) -> None:
    size = 40 if device.backend == "simulator" else 150
    rng = np.random.default_rng(3)
    upper = np.triu(rng.random((size, size)) < 0.5, 1) | np.eye(size, dtype=bool)
    a = gf2.BitMatrix.from_dense(product(upper, upper.T), device=device)
    assert gf2.matmul(a, gf2.inverse(a)) == gf2.BitMatrix.identity(size)
    dense = a.to_dense()
    dense[size // 2] = dense[0] ^ dense[1]
    with pytest.raises(DataError, match=f"singular; its rank is {size - 1}, not {size}"):
        gf2.inverse(gf2.BitMatrix.from_dense(dense, device=device))


def test_arrays_by_name_and_beside_bit_matrices_of_a_device(device: Device) -> None:
    a, b = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]]), np.array([1, 0, 1])
    x = (a @ gf2.solve(a, b=b)) % 2
    np.testing.assert_array_equal(x, b)
    np.testing.assert_array_equal(gf2.matmul(b=a, a=a), a @ a % 2)
    matrix, column = gf2.BitMatrix.from_dense(a, device=device), portable.xp(device).asarray(b)
    solved = portable.to_numpy(gf2.solve(matrix, column))
    np.testing.assert_array_equal(solved, gf2.solve(a, b))


def test_random_matrices_are_the_same_everywhere(device: Device) -> None:
    a = gf2.random((50, 170), density=0.3, seed=5, device=device)
    assert a == gf2.random((50, 170), density=0.3, seed=5, device="simulator")
    assert abs(a.to_dense().mean() - 0.3) < 0.02
    assert a != gf2.random((50, 170), density=0.3, seed=6, device=device)
    assert gf2.random((9, 70), density=1, device=device).to_dense().all()
    assert not gf2.random((9, 70), density=0, device=device).to_dense().any()


def test_what_is_refused() -> None:
    a = gf2.BitMatrix.from_columns([[0], [0]], 2)
    with pytest.raises(DataError, match="no solution: row 1 of a is a sum of others"):
        gf2.solve(a, gf2.BitMatrix.from_columns([[0], []], 1))
    with pytest.raises(DataError, match="a has no columns"):
        gf2.solve(gf2.BitMatrix.zeros((2, 0)), a)
    with pytest.raises(ShapeError, match="a has 2 rows, b has 3"):
        gf2.solve(a, gf2.BitMatrix.zeros((3, 1)))
    with pytest.raises(ShapeError, match="square matrix"):
        gf2.inverse(gf2.BitMatrix.zeros((2, 3)))
    with pytest.raises(ShapeError, match="the columns of a, 2, are not as many"):
        gf2.matmul(a, gf2.BitMatrix.zeros((3, 1)))
    with pytest.raises(DeviceMismatchError, match="matmul: one matrix is on"):
        gf2.matmul(a, a.to("simulator:arrays"))
    with pytest.raises(ValueError, match="density"):
        gf2.random((2, 2), density=1.5)
