"""Symmetric matrices reduced to bands by panels, and led back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portable
from portable import lang as kl
from portable.backend import Device
from portable.lang.launch.geometry import groups
from portable.linalg.base.tiling import Tiling
from portable.linalg.factorisations import holding, reflectors
from portable.linalg.factorisations.matrices import copied, turned
from portable.linalg.factorisations.products import multiplied
from portable.linalg.spectral import symmetric_panels as symmetric
from portable.linalg.spectral.symmetric_panels import change_both_sides, symmetric_panels
from portable.sim import checks
from tests.linalg.spectral_matrices import hermitian, random


def require_band_and_basis(n: int, width: int, resident: int) -> None:
    """Reduces a matrix on a simulated GPU, and puts it together again of its band and its basis."""
    a, device = hermitian(random((n, n), "float32")), portable.device("simulator:h200")
    with portable.use(device.name), checks(resident=resident, seed=0, schedule="held"):
        panels, reduce, join = symmetric_panels(device, n, width, kl.f32)
        rows = int(panels.whole.shape[1])
        copied(device, np.pad(a, (0, rows - n))[None], turned(panels.whole))
        reduce()
        join()
        basis = np.empty((1, n, n), np.float32)
        panels.lead_back(np.eye(rows, dtype=np.float32)[None], basis)
    lower = np.tril(panels.whole[0]) - np.tril(panels.whole[0], -width - 1)
    band = (lower + np.tril(lower, -1).T)[:n, :n].astype(np.float64)
    q, eps = basis[0].astype(np.float64), np.finfo(np.float32).eps
    assert np.linalg.norm(q.T @ q - np.eye(n), 2) <= 30 * eps
    assert np.linalg.norm(q @ band @ q.T - a, 2) <= 30 * eps * np.linalg.norm(a, 2)


@pytest.mark.parametrize(("n", "width", "resident"), [(5, 8, 4), (27, 8, 4), (48, 16, 5)])
def test_a_band_and_its_basis_make_the_matrix(n: int, width: int, resident: int) -> None:
    """Of five workgroups at a time each has slices of a panel, which wait for each other."""
    require_band_and_basis(n, width, resident)


def test_panels_are_joined_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of which has one panel, where the others have two."""
    monkeypatch.setattr(reflectors, "WIDE", 16)
    require_band_and_basis(48, 8, 4)


def test_what_is_done_beside_a_panel_has_rooms_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it comes between two products by which a panel in two parts is made."""
    between = []

    def at_once(device: Device, first: Callable[[], object], second: Callable[[], object]) -> None:
        beside = [second]

        def product(*args: Any, **settings: Any) -> None:
            multiplied(*args, **settings)
            if beside:
                between.append(beside.pop()())

        with monkeypatch.context() as patch:
            patch.setattr(reflectors, "multiplied", product)
            first()
        for work in beside:
            work()

    monkeypatch.setattr(symmetric, "at_once", at_once)
    monkeypatch.setattr(holding, "_ALONE_COLUMNS", (8, 8))
    require_band_and_basis(64, 16, 1)
    assert len(between) == 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 16, 45, 64])
def test_a_symmetric_change_reaches_both_sides(n: int, dtype: str) -> None:
    """Squares of 16, of which some lie on the diagonal and some reach beyond the matrix."""
    z, v, c = random((n, 4), dtype), random((n, 4), dtype, 1), random((n, n), dtype)
    left, right = np.hstack([z, v]), np.hstack([v, z]).T.copy()
    c = hermitian(c)
    wanted, half = c - left @ right, -(-n // 32)
    with portable.use("simulator"):
        launch = change_both_sides[groups(2 * half + 1, half), 16]
        launch(left, right, c, TILING=Tiling(16, 16, 8, 2, units=False))
    np.testing.assert_allclose(c, wanted, atol=100 * np.finfo(dtype).eps)
