"""What notebooks show, and what devices say of their memory."""

from __future__ import annotations

import numpy as np
import pytest

import portable as pt
from portable.backend import Device
from portable.system.tables import html
from portable_bench.operation import Work
from portable_bench.results import Cell, Results
from tests.bench.fakes import outcome


@pytest.mark.needs_namespace
def test_arrays(device: Device) -> None:
    xp = pt.xp(device)
    x = xp.reshape(xp.arange(6, dtype=xp.float32), (2, 3))
    if not hasattr(x, "_repr_html_"):
        pytest.skip(f"arrays of {device.name} are another library's")
    shown = x._repr_html_()
    assert "float32 array of shape (2, 3) on" in shown
    assert "[3., 4., 5.]" in shown
    assert "dtype=" not in shown
    large = xp.zeros((1000, 1000), dtype=xp.float32)._repr_html_()
    assert "..." in large
    assert len(large) < 2000


def test_devices(device: Device) -> None:
    assert device.name in device._repr_html_()
    whole = pt.devices()
    assert isinstance(whole, tuple)
    assert all(d.name in whole._repr_html_() for d in whole)


def test_results_of_the_bench() -> None:
    outcomes = [outcome("portable", 1e-3), outcome("NumPy", 2e-3, peer=True)]
    made = Cell("gemm", "cpu", "f32", (8, 8, 8), "8", Work(1e9, 1e6), outcomes=outcomes)
    shown = Results({}, [made])._repr_html_()
    assert made.operation in shown
    assert shown.count("<pre") == 1


def test_names_steer_no_notebook() -> None:
    assert "<script>" not in html("<script>alert(1)</script>", "[bold]x")
    assert "[bold]x" in html("[bold]x")


def test_memory(device: Device) -> None:
    before = device.memory()
    x = device.from_numpy(np.zeros(2**18, np.float32))
    after = device.memory()
    assert after.total is None or after.total > 2**20
    if after.free is not None and after.total is not None:
        assert 0 < after.free <= after.total
    if before.used is not None and after.used is not None:
        assert after.used >= before.used + 2**20
        assert after.held is not None
        assert after.held >= after.used
        del x
        freed = device.memory().used
        assert freed is not None
        assert freed < after.used
