"""Which tiles a product tries first."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from portable.dtypes import DType, float16, float64
from portable.linalg.gemm_tuning import candidates
from tests.support.compilers import CUDA

H200 = replace(CUDA, matrix_units=CUDA.matrix_units | {"wgmma.f16"}, compute_units=132)
PLAIN = replace(H200, matrix_units=frozenset())


def tried(on: Any, dtype: DType, edge: int, algorithm: str = "auto") -> Any:
    device: Any = SimpleNamespace(capabilities=on)
    return candidates(device, dtype, algorithm, (edge, edge, 1))


@pytest.mark.parametrize("edge", [16, 100, 256, 512, 768, 1024, 4096, 20_000])
def test_matrix_units_of_half_precision_are_used_at_any_size(edge: int) -> None:
    """Smaller tiles without them would divide small results among more compute units."""
    assert tried(H200, float16, edge)[0]["UNITS"]


def test_double_precision_takes_them_for_large_results_only() -> None:
    assert tried(H200, float64, 4096)[0]["UNITS"]
    assert not tried(H200, float64, 128)[0]["UNITS"]


def test_rungs_below_matrix_units_take_what_suits_the_size() -> None:
    small = tried(H200, float16, 256, "register")[0]
    assert not small["UNITS"]
    assert small["BM"] * small["BN"] < 64 * 64
    assert tried(PLAIN, float16, 256)[0]["BM"] == small["BM"]


def test_large_results_have_large_tiles_and_small_ones_small() -> None:
    areas = [x["BM"] * x["BN"] for x in (tried(H200, float16, n)[0] for n in (256, 1024, 4096))]
    assert areas == sorted(areas)
    assert areas[0] < areas[-1]
