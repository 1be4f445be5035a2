"""Operations that copy ahead, as they are lowered for other devices, with all checks on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable
from portable import dtypes as dt
from portable import sim
from portable.dtypes import DType
from portable.lang.ir import statements as s
from portable.lang.ir.walks import all_statements
from portable.linalg import band_to_bidiagonal, dense_to_band
from portable.linalg.products.kernels import keep
from portable.linalg.products.launches import tiles_launch
from portable.sim.errors import FaultError
from tests.support.faults import Change, planted, without

_CHOICE: dict[str, Any] = {
    "BM": 64, "BN": 64, "BK": 64, "STAGES": 3, "SPECIALISED": True, "WORKGROUP": 256, "GROUP": 8,
    "UNITS": True,
}  # fmt: skip
_SMALL: dict[str, Any] = _CHOICE | {
    "BM": 32,
    "BN": 32,
    "BK": 16,
    "SPECIALISED": False,
    "WORKGROUP": 64,
}

_WARP: dict[str, Any] = _CHOICE | {"WORKGROUP": 160}

_PRODUCTS: dict[str, tuple[str, DType, tuple[int, int, int], dict[str, Any], str]] = {
    "a copy engine": ("h200", dt.float16, (72, 64, 264), _CHOICE, "tensor.load.2"),
    "a copying warpgroup": ("h200", dt.float16, (72, 60, 264), _CHOICE, "mbarrier.arrive.copied"),
    "a warp asks the engine": ("h200", dt.float16, (72, 64, 264), _WARP, "tensor.load.2"),
    "a copying warp": ("h200", dt.float16, (72, 60, 264), _WARP, "mbarrier.arrive.copied"),
    "tiles in turn": ("h200", dt.float16, (136, 72, 264), _WARP | {"RESIDENT": 1}, "tensor.load.2"),
    "copies ahead for warps": ("a100", dt.float16, (40, 32, 72), _SMALL, "cp.async.wait"),
    "copies ahead of doubles": ("h200", dt.float64, (36, 32, 40), _SMALL, "mma.f64.m16n8k8"),
    "copies ahead for tiles in registers": (
        "h200", dt.float32, (36, 32, 40), _SMALL | {"UNITS": False}, "cp.async.wait"
    ),
}  # fmt: skip


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The instructions in kernels that are simulated."""
    found: set[str] = set()
    run = sim.Simulation.run

    def recorded(self: sim.Simulation, *args: Any, **options: Any) -> None:
        statements = all_statements(self.kernel.body)
        found.update(x.name for x in statements if isinstance(x, s.Instruction))
        run(self, *args, **options)

    monkeypatch.setattr(sim.Simulation, "run", recorded)
    return found


@pytest.mark.parametrize(("completion", "turns"), [("early", "first"), ("late", "last")])
@pytest.mark.parametrize("case", _PRODUCTS)
def test_products(case: str, completion: str, turns: str, ran: set[str]) -> None:
    profile, kind, (m, n, k), choice, wanted = _PRODUCTS[case]
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(kind.numpy) for shape in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, kind.numpy)
    how = {"ACC": kind.register, "ACTIVATION": keep}
    launcher, constants, *_ = tiles_launch(choice, c.shape, how, compute_units=2)
    with portable.use(f"simulator:{profile}"), sim.checks(completion=completion, turns=turns):
        launcher(1.0, a, b, 0.0, None, None, c, **constants)
    assert wanted in ran
    assert (c == a.astype(np.float64) @ b.astype(np.float64)).all()


@pytest.mark.parametrize("completion", ["early", "random"])
def test_a_ring_of_bulk_copies(completion: str, ran: set[str]) -> None:
    ab = np.random.default_rng(0).standard_normal((4, 24))
    with portable.use("simulator:h200"), sim.checks(completion=completion):
        d, e = band_to_bidiagonal(ab)
    dense = sum(np.diag(ab[3 - k, k:], k) for k in range(4))
    found = np.linalg.svd(np.diag(d) + np.diag(e, 1), compute_uv=False)
    assert np.allclose(found, np.linalg.svd(dense, compute_uv=False), atol=1e-13)
    assert {"bulk.load", "mbarrier.wait"} <= ran


_RING_FAULTS: dict[str, tuple[Change, str]] = {
    "the engine does not see what packs before stored": (
        without("proxy.fence.all"), "read of w.*asynchronous proxy"
    ),
    "blocks not waited for": (without("mbarrier.wait"), "ring.*working on"),
}  # fmt: skip


@pytest.mark.parametrize("fault", _RING_FAULTS)
def test_faults_planted_in_a_ring_are_reported(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, text = _RING_FAULTS[fault]
    run = sim.Simulation.run

    def damaged(self: sim.Simulation, *args: Any, **options: Any) -> None:
        ring = self.kernel.name == "ring_packs"
        run(sim.Simulation(planted(self.kernel, change)) if ring else self, *args, **options)

    monkeypatch.setattr(sim.Simulation, "run", damaged)
    ab = np.random.default_rng(0).standard_normal((4, 24))
    with portable.use("simulator:h200"), pytest.raises(FaultError, match=f"ring_packs.*{text}"):
        band_to_bidiagonal(ab)


def test_reflectors_that_fetch_ahead(ran: set[str]) -> None:
    a = np.random.default_rng(0).standard_normal((12, 10)).astype(np.float32)
    with portable.use("simulator:h200"), sim.checks(completion="early"):
        ab = dense_to_band(a, 3)
    band = sum(np.diag(ab[3 - k, k:], k) for k in range(4))
    found, wanted = (np.linalg.svd(x, compute_uv=False) for x in (band, a))
    assert np.allclose(found, wanted, atol=1e-4)
    assert "cp.async.wait" in ran


@pytest.mark.parametrize("completion", ["early", "late"])
def test_scans_that_fetch_ahead(completion: str, ran: set[str]) -> None:
    xp = portable.xp("simulator:h200-arrays")
    x = np.random.default_rng(0).integers(-4, 5, 20_000).astype(np.float32)
    with sim.checks(completion=completion):
        found = portable.to_numpy(xp.cumulative_sum(xp.asarray(x)))
    assert (found == np.cumsum(x)).all()
    assert "cp.async.wait" in ran
