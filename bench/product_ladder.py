"""The ways in which a product of matrices is made on a device, from the plainest."""

from __future__ import annotations

from portable.dtypes import float32
from portable.linalg.products.plan import ALGORITHMS, PRECISIONS
from portable_bench.operation import Case


def rungs(case: Case) -> dict[str, dict[str, str]]:
    """Arguments of `portable.linalg.gemm`: all algorithms, and the coarser precisions there."""
    ways = {name: {"algorithm": name} for name in ALGORITHMS if name not in ("auto", "vendor")}
    units = "mma.tf32" in case.device.capabilities.matrix_units
    coarser = PRECISIONS[1:] if units and case.dtype is float32 else ()
    return ways | {name: {"precision": name} for name in coarser}
