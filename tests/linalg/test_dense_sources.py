"""The kernels of the reduction to a band, compiled for GPUs that are not here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portable import dtypes
from portable.backend import Capabilities, Program, profiles
from portable.linalg.dense.kernels import clear_below, load_dense, store_band, store_values
from portable.linalg.dense.panel_kernels import factor_panel
from portable.linalg.dense.reduction import apply_reflectors
from portable.linalg.dense.reflector_tree import Level, Panel, Reflectors
from portable.linalg.dense.shapes import dense_shape, tuned
from portable.linalg.singular_values.bidiagonal import Search, bisect
from portable.linalg.singular_values.direct_kernels import DirectShape, Scratch, bidiagonalize
from portable.linalg.singular_values.jacobi_kernels import jacobi_svdvals
from portable.linalg.singular_values.rotation_shapes import RotationShape
from portable.linalg.spectral.hop_blocks import Blocks, apply_hops
from portable.linalg.spectral.symmetric_panels import make_lines
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


def panels(capabilities: Capabilities, dtype: str, *, turned: bool) -> list[Program]:
    """The two kernels of a panel, as the table has them for the device, and of a chase's blocks."""
    kind = dtypes.dtype(dtype)
    choice = tuned(kind, 4096, capabilities)[0]
    shape = dense_shape(choice, choice["BANDWIDTH"], kind, capabilities)
    a, v = np.empty((9, 9), kind.numpy), np.empty((9, shape.panel), kind.numpy)
    t, counts = np.empty((9, shape.panel, shape.panel), kind.numpy), np.empty(9, np.int32)
    how = {"SHAPE": shape, "UNIT": shape.panel, "TRANSPOSED": turned}
    hops = replace(shape, fan=2, climb=False)
    arrays, place, level = (a, Reflectors(v, t, counts)), Panel(0, 0, 8), Level(0, 2, 1)
    items, workgroup = (*shape.items, 1), (shape.workgroup, 1, 1)
    return [
        program(factor_panel, capabilities, items, *arrays, place, level, **how),
        program(apply_reflectors, capabilities, workgroup, *arrays, place, level, 4, **how),
        program(
            apply_hops, capabilities, workgroup, a, Blocks(v, v, counts), (1, 2, 3, 4), 99,
            SHAPE=hops, B=shape.panel,
        ),
        program(make_lines, capabilities, workgroup, *(a,) * 7, WIDTH=shape.panel, EACH=8),
    ]  # fmt: skip


def others(capabilities: Capabilities, dtype: str) -> list[Program]:
    kind = dtypes.dtype(dtype)
    register = kind.register
    integer = dtypes.int32 if register is dtypes.float32 else dtypes.int64
    a, given = np.empty((9, 9), register.numpy), np.empty((9, 9), kind.numpy)
    batch, d = np.empty((3, 9, 9), kind.numpy), np.empty(9, register.numpy)
    table = np.empty(16, integer.numpy)
    small = RotationShape(rows=9, columns=9, longs=0, squares=False, parts=4)
    direct = DirectShape(lanes=16 // register.itemsize, rows=4, team=32, teams=2)
    each, sums = (np.empty((3, *x, 9), register.numpy) for x in ((9,), (2, 2)))
    scratch = Scratch(each, each, sums, sums)
    search = Search(30, left=2, split=3, lanes=1, vectors=1, integer=integer)
    return [
        program(load_dense, capabilities, TILE, given, d, a, TARGET=20, TRANSPOSED=True),
        program(clear_below, capabilities, TILE, a),
        program(store_band, capabilities, TILE, a, d, a, d, 8.0, TARGET=20),
        program(store_values, capabilities, LINE, a, d, a, TARGET=20, REVERSED=True),
        program(jacobi_svdvals, capabilities, (20, 1, 1), batch, a, d, SHAPE=small),
        program(bidiagonalize, capabilities, LINE, each, scratch, a, a, None, 0, 1, SHAPE=direct),
        program(bisect, capabilities, LINE, a, table, d, d, SEARCH=search),
    ]


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_panels_compile_for_cuda(dtype: str, turned: bool) -> None:
    compile_cuda_together(panels(CUDA, dtype, turned=turned))


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_the_rest_compiles_for_cuda(dtype: str) -> None:
    compile_cuda_together(others(CUDA, dtype))


@pytest.mark.skipif(bool(hip_missing()), reason=hip_missing())
def test_compiles_for_hip() -> None:
    compile_hip_together([*panels(HIP, "float32", turned=True), *others(HIP, "float16")[-2:]])


def test_a_layout_is_the_very_same_for_the_same_choice() -> None:
    """By this, launches of panels are recognised: a quarter of the time of 200 columns."""
    choice = tuned(dtypes.float32, 200, CUDA)[0]
    once, twice = (dense_shape(dict(choice), 32, dtypes.float32, CUDA) for _ in range(2))
    assert once is twice
    assert once is not dense_shape({**choice, "STRIP": 16}, 32, dtypes.float32, CUDA)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bands_are_as_wide_through_another_driver(dtype: str) -> None:
    """NVIDIA's OpenCL takes more local memory than it tells of, which is seen by trying."""
    kind, seen = dtypes.dtype(dtype), profiles.load("nvidia-opencl").capabilities
    for n in (1024, 4096, 8192):
        assert tuned(kind, n, seen) == tuned(kind, n, CUDA)
