"""The kernels of decompositions with vectors, compiled for GPUs that are not here."""

from __future__ import annotations

import numpy as np
import pytest

from portable import dtypes
from portable.backend import Capabilities, Program
from portable.linalg.base.tiling import Tiling
from portable.linalg.singular_values.rotation_shapes import RotationShape, rotation_shape
from portable.linalg.spectral.banded import factor_shifted_bands
from portable.linalg.spectral.bidiagonal_kernels import Bidiagonal, bidiagonalize_in_panels
from portable.linalg.spectral.merge_kernels import deflate, form_factor
from portable.linalg.spectral.merge_shapes import Blocks, Joined, Kept, MergeShape, Roots
from portable.linalg.spectral.rotations import Factors, svd_by_rotations
from portable.linalg.spectral.secular_kernels import place_roots, refine_weights, solve_secular
from portable.linalg.spectral.step_kernels import StepShape
from portable.linalg.spectral.symmetric_panels import change_both_sides, make_lines
from portable.linalg.spectral.tridiagonal_kernels import Tridiagonal, tridiagonalize
from tests.linalg.test_band_sources import program
from tests.support.compilers import (
    CUDA,
    HIP,
    compile_cuda_together,
    compile_hip_together,
    cuda_missing,
    hip_missing,
)

LINE, TILE = (64, 1, 1), (32, 8, 1)


def reductions(capabilities: Capabilities, dtype: str) -> list[Program]:
    """Rotations and a reduction, which take complex numbers too."""
    kind = dtypes.dtype(dtype)
    real = kind.real.numpy
    a, values = np.empty((2, 9, 9), kind.numpy), np.empty((2, 9), real)
    shares, flags = np.empty((2, 2, 9), real), np.empty((2, 9), np.int32)
    out = Tridiagonal(values, a[:, 0], a, values, a, a[:, 0], a, shares)
    line = a[:, 0]
    pairs = Bidiagonal(line, line, a, a, values, values, a, line, line, line, a, line, line, shares)
    shape = rotation_shape(RotationShape(9, 9, 9, squares=True), kind, capabilities)
    lanes = 1 if kind.is_complex else 16 // kind.itemsize
    steps = StepShape(lanes, 1, 2, capabilities.sub_group_size, 2, 9, 8)
    factors = Factors(values, a, a, flags[:, 0])
    return [
        program(svd_by_rotations, capabilities, (20, 1, 1), a, factors, a, SHAPE=shape),
        program(
            bidiagonalize_in_panels,
            capabilities,
            (steps.items, 1, 1),
            a,
            pairs,
            flags,
            0,
            0,
            1,
            SHAPE=steps,
        ),
        program(
            tridiagonalize, capabilities, (steps.items, 1, 1), a, out, flags, 0, 0, 1, SHAPE=steps
        ),
    ]


def merges(capabilities: Capabilities, dtype: str) -> list[Program]:
    """What divide and conquer launches, and what changes matrices and factors bands."""
    x, pairs = np.empty((2, 9), dtype), np.empty((2, 9, 2), dtype)
    i, places = np.empty((2, 9), np.int32), np.empty((2, 9, 2), np.int32)
    kept = Kept(x, x, i, x, i, places, pairs, i, i[0])
    roots = Roots(i, x, x, x, pairs, i)
    shape = MergeShape(singular=True, lanes=1, team=32)
    factor = np.empty((2, 9, 9), dtype)
    blocks, joined = Blocks(x, factor, factor), Joined(x, x, i)
    squares = Tiling(64, 64, 16, 2, units=True)
    panel = x, x, x, x, x, x, x
    return [
        program(make_lines, capabilities, (256, 1, 1), *panel, WIDTH=32, EACH=4),
        program(change_both_sides, capabilities, (128, 1, 1), x, x, x, TILING=squares),
        program(factor_shifted_bands, capabilities, LINE, x, x[0], factor, x, B=16, EACH=4),
        program(deflate, capabilities, LINE, blocks, x, x, joined, kept, SHAPE=shape),
        program(solve_secular, capabilities, LINE, kept, roots, SHAPE=shape),
        program(refine_weights, capabilities, LINE, kept, roots, SHAPE=shape),
        program(place_roots, capabilities, LINE, kept, roots, x, SHAPE=shape),
        program(form_factor, capabilities, TILE, kept, roots, factor, SHAPE=shape, LEFT=True),
    ]


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cuda_compiles(dtype: str) -> None:
    wide = "complex64" if dtype == "float32" else "complex128"
    some = reductions(CUDA, dtype) + reductions(CUDA, wide)
    compile_cuda_together(some + merges(CUDA, dtype))


@pytest.mark.skipif(bool(hip_missing()), reason=hip_missing())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hip_compiles(dtype: str) -> None:
    wide = "complex64" if dtype == "float32" else "complex128"
    some = reductions(HIP, dtype) + reductions(HIP, wide)
    compile_hip_together(some + merges(HIP, dtype))
