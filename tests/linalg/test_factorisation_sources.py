"""The kernels of factorisations, compiled for GPUs that are not here."""

from __future__ import annotations

import numpy as np
import pytest

from portable import dtypes
from portable.backend import Capabilities, Program
from portable.linalg.factorisations.definite_kernels import cholesky_rows
from portable.linalg.factorisations.held_panel_kernels import (
    Holding,
    eliminate_in_registers,
    exchange_and_solve,
)
from portable.linalg.factorisations.held_reflector_kernels import reflect_in_registers
from portable.linalg.factorisations.layout import layout_of
from portable.linalg.factorisations.triangle_kernels import Triangle, solve_segments
from tests.linalg.test_band_sources import program
from tests.support.compilers import (
    CUDA,
    HIP,
    compile_cuda,
    compile_hip_together,
    cuda_missing,
    hip_missing,
)

DTYPES = ["float32", "float64", "complex64"]


def programs(can: Capabilities, dtype: str) -> list[Program]:
    """Those that have most to do, as they are launched for large matrices."""
    kind = dtypes.dtype(dtype)
    layout = layout_of(kind, can)
    a, whole = np.empty((2, 99, 99), kind.numpy), np.empty((2, 99), np.int32)
    counts, factors = np.empty(99, np.int32), np.empty((2, 2, 64, 64), kind.numpy)
    holding = Holding(4 if kind.itemsize == 4 else 2, 16 if kind.is_complex else 32, 256)
    moves, board = np.empty((2, 2, 2 * holding.panel, 2), np.int32), np.empty(99, np.uint64)
    many, items = (512, 1, 1), (256, 1, 1)
    which = Triangle(backward=True, turned=True, conjugate=True, unit=False)
    return [
        program(
            reflect_in_registers, can, items, a, a, a, board, (0, 16, 0, 2),
            HOLDING=holding, TEAMS=256 // can.sub_group_size,
        ),
        program(cholesky_rows, can, many, a, factors, counts, 0, 2, LAYOUT=layout, STRIP=64),
        program(
            solve_segments, can, items, a, a, 2,
            WHICH=which, EDGE=layout.solved, STRIP=layout.items * 8 // layout.solved,
        ),
        program(
            eliminate_in_registers, can, items, a, whole, counts, moves, np.stack([a, a]),
            (board, whole[0]), (0, 16, 2, 1), HOLDING=holding,
        ),
        program(
            exchange_and_solve, can, items, a, moves, a, (0, 16, 0, 99),
            STRIP=16, COUNT=holding.panel,
        ),
    ]  # fmt: skip


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_compile_for_cuda(dtype: str) -> None:
    for each in programs(CUDA, dtype):
        assert each.entry in compile_cuda(each)


@pytest.mark.skipif(bool(hip_missing()), reason=hip_missing())
def test_kernels_compile_for_hip() -> None:
    compile_hip_together(programs(HIP, "float32"))
