"""The kernels of factorisations, compiled for GPUs that are not here."""

from __future__ import annotations

import numpy as np
import pytest

from portable import dtypes
from portable.backend import Capabilities, Program
from portable.linalg.factorisations.definite_kernels import cholesky_rows
from portable.linalg.factorisations.layout import layout_of
from portable.linalg.factorisations.reflector_slice_kernels import reflect_slices
from portable.linalg.factorisations.slice_kernels import Holding, eliminate_slices, exchange
from portable.linalg.factorisations.tall_kernels import (
    EDGE,
    add_grams,
    deviations,
    gram_rows,
    multiply_rows,
)
from portable.linalg.factorisations.triangle_kernels import Triangle, solve_segments
from tests.linalg.test_band_sources import program
from tests.support.compilers import (
    CUDA,
    HIP,
    compile_cuda_together,
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
    holding = Holding(128 // 8 // kind.itemsize, 8, 1024, alone=False)
    moves = np.empty((2, 2, 64, 2), np.int32)
    many, items, most = (512, 1, 1), (256, 1, 1), (1024, 1, 1)
    which = Triangle(backward=True, turned=True, conjugate=True, unit=False)
    return [
        program(
            reflect_slices, can, most, a, a, a, counts, (0, 16, 0, 2, 2),
            HOLDING=holding, TEAMS=1024 // can.sub_group_size,
        ),
        program(cholesky_rows, can, many, a, factors, counts, 0, 2, LAYOUT=layout, STRIP=64),
        program(
            solve_segments, can, items, a, a, 2,
            WHICH=which, EDGE=layout.solved, STRIP=layout.items * 8 // layout.solved,
        ),
        program(
            eliminate_slices, can, most, a, whole, counts, moves[0], counts, (0, 16, 1, 2),
            HOLDING=holding,
        ),
        program(exchange, can, items, a, moves, 0, 99, STRIP=16, ROWS=64),
    ]  # fmt: skip


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_compile_for_cuda(dtype: str) -> None:
    compile_cuda_together(programs(CUDA, dtype))


def tall_programs(can: Capabilities) -> list[Program]:
    """Those of tall matrices of few columns, which are of single precision alone."""
    items, a, grams = (256, 1, 1), np.empty((1, 99, 30), np.float32), np.empty((1, 2, EDGE, EDGE))
    return [
        program(gram_rows, can, items, a, grams),
        program(multiply_rows, can, items, a, grams[0, :, :30, :30], a, 2),
        program(add_grams, can, items, grams, grams[0, :, :30, :30]),
        program(deviations, can, items, grams[0], np.empty(2)),
    ]


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
def test_kernels_of_tall_matrices_compile_for_cuda() -> None:
    compile_cuda_together(tall_programs(CUDA))


@pytest.mark.skipif(bool(hip_missing()), reason=hip_missing())
def test_kernels_compile_for_hip() -> None:
    compile_hip_together([*programs(HIP, "float32"), *tall_programs(HIP)])
