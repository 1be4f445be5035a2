"""How lengths are cut, and the tables for them; no device needed."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portable import registry
from portable.array.fourier.plan import (
    TableCache,
    balanced,
    between_passes,
    is_smooth,
    next_smooth,
    prime_factors,
    radices,
    roots,
    stage_rotations,
)
from portable.dtypes import complex64


@given(st.integers(1, 10**6))
def test_factors(n: int) -> None:
    primes = prime_factors(n)
    assert prod(primes) == n
    assert list(primes) == sorted(primes)
    assert all(len(prime_factors(p)) == 1 for p in primes)


@given(st.lists(st.sampled_from([2, 3, 5, 7, 11, 13]), max_size=12), st.sampled_from([8, 16]))
def test_radices_are_few(primes: list[int], largest: int) -> None:
    n = prod(primes)
    found = radices(n, largest)
    assert prod(found) == n
    assert all(r <= max(largest, 13) for r in found)
    assert len(found) <= max(1, len(primes))
    alone = radices(n, largest, mixed=False)
    assert prod(alone) == n
    assert all(r % 2 or r & (r - 1) == 0 for r in alone)


def test_powers_of_two_take_the_fewest_stages() -> None:
    assert radices(1, 16) == (1,)
    assert radices(1024, 16) == (16, 8, 8)
    assert radices(2**12, 8) == (8, 8, 8, 8)
    assert radices(2**7, 8) == (8, 4, 4)


@given(st.integers(1, 5000))
def test_next_smooth(n: int) -> None:
    found = next_smooth(n)
    assert n <= found <= 2 * n
    assert is_smooth(found)
    if n < 64:
        assert found == next(m for m in range(n, 2 * n + 1) if max(prime_factors(m), default=1) < 7)


def test_passes_are_alike() -> None:
    assert balanced(2**20, 1024) == (1024, 1024)
    assert balanced(2**22, 1024) == (256, 128, 128)
    assert balanced(10**6, 1024) == (1000, 1000)
    assert balanced(60, 100) == (60,)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 12, 99991, 2**20, 3**20])
def test_roots_are_right_to_an_ulp(n: int) -> None:
    k = np.unique(np.r_[:9, np.random.default_rng(0).integers(0, n, 999), n - 1, n // 2])
    angle = -2 * np.longdouble(np.pi) * (k % n).astype(np.longdouble) / n
    angle -= 2 * (np.longdouble("3.14159265358979323846264338327950288") - np.pi) * (k % n) / n
    assert np.abs(roots(k, n).real - np.cos(angle)).max() < 1.5e-16
    assert np.abs(roots(k, n).imag - np.sin(angle)).max() < 1.5e-16


def test_quarters_of_the_circle_are_exact() -> None:
    np.testing.assert_array_equal(roots(np.arange(4), 4), [1, -1j, -1, 1j])


def test_rotations_of_stages() -> None:
    table = stage_rotations((4, 3))
    assert table.size == 12 + 7 + 11 + 13
    np.testing.assert_allclose(table[3 : 3 + 8], roots(np.r_[:4, 0:8:2], 12))


def test_rotations_between_passes() -> None:
    coarse, fine = between_passes(5, 12, 8)
    q, k = np.arange(12), np.arange(5)
    product = coarse[q // 8][:, k] * fine[k][:, q % 8].T
    np.testing.assert_allclose(product, roots(q[:, None] * k, 60), atol=1e-15)


def test_tables_are_kept_up_to_a_limit() -> None:
    cache, device = TableCache(1000), registry.device("simulator:arrays")
    made = []

    def table(n: int) -> np.ndarray:
        made.append(n)
        return np.zeros(n, np.complex128)

    for n in (50, 50, 60, 50, 70, 60):
        (found,) = cache(device, complex64, table, n)
        assert found.shape == (n,)
    assert made == [50, 60, 70, 60]
