"""The kernels of the singular values, compiled for GPUs that are not here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable
from portable import dtypes
from portable.backend import Capabilities, Program
from portable.lang.emit import generate
from portable.lang.kernel import Kernel
from portable.lang.signature import Specialisation
from portable.linalg.band_kernels import band_packs, band_wave, load_band, store_bidiagonal
from portable.linalg.band_shapes import Shape, shape_for
from portable.linalg.bidiagonal_kernels import bisect, count_table, squares
from portable.linalg.magnitude import largest_kernel
from tests.support.compilers import CUDA, HIP, compile_cuda, compile_hip, cuda_missing, hip_missing

ONE = {"LANES": 1, "VECTORS": 1}


def program(
    kernel: Kernel,
    capabilities: Capabilities,
    workgroup: tuple[int, int, int],
    *args: Any,
    **constants: Any,
) -> Program:
    host = portable.device("simulator")
    views = [host.view(x) if isinstance(x, np.ndarray) else None for x in args]
    wanted = Specialisation(
        kernel.specs(args, views),
        kernel.constants(constants),
        workgroup,
        False,
        True,
        kernel.options,
    )
    return generate(kernel.translated(wanted, capabilities), capabilities)


def programs(capabilities: Capabilities, dtype: str, u: int) -> list[Program]:
    """Every kernel as the operations would launch it."""
    kind = dtypes.dtype(dtype)
    register = kind.register
    integer = dtypes.int32 if register is dtypes.float32 else dtypes.int64
    ab = np.empty((u + 1, 9), kind.numpy)
    work, sync = np.empty(900, kind.numpy), np.empty(9, np.int32)
    d = np.empty(9, register.numpy)
    q, table = np.empty((2, 9), register.numpy), np.empty(16, integer.numpy)
    shape = shape_for(u, 2048, kind, capabilities)
    layout = {"B": u, "LANES": shape.lanes, "ROWS": shape.rows}
    packs = {"SWEEPS": shape.sweeps, "EVERY": shape.every, "WINDOW": shape.window}
    hops = (shape.items, shape.sweeps, 1)
    line, levels = (64, 1, 1), {"INT": integer, "BITS": 20, **ONE}
    scale = {"B": u, "TARGET": 8}
    return [
        program(largest_kernel, capabilities, line, ab, d, 0, SIZE=64, BAND=True),
        program(load_band, capabilities, line, ab, d, work, sync, **scale),
        program(store_bidiagonal, capabilities, line, work, d, d, d, **scale),
        program(band_packs, capabilities, hops, work, sync, 9, **layout, **packs),
        program(band_wave, capabilities, (shape.items, 1, 1), work, 9, 1, 0, **layout),
        program(squares, capabilities, line, d, d, d, q),
        program(count_table, capabilities, line, q, table, **levels),
        program(bisect, capabilities, line, q, table, d, d, LEVELS=4, LEFT=1, **levels),
    ]


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("u", [8, 32, 128])
def test_compiles_for_cuda(dtype: str, u: int) -> None:
    for each in programs(CUDA, dtype, u):
        assert each.entry in compile_cuda(each)


@pytest.mark.skipif(bool(hip_missing()), reason=hip_missing())
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_compiles_for_hip(dtype: str) -> None:
    for each in programs(HIP, dtype, 16):
        compile_hip(each)


def test_the_window_stays_in_local_memory_where_it_fits() -> None:
    def chosen(u: int, dtype: dtypes.DType) -> Shape:
        return shape_for(u, 4096, dtype, CUDA)

    assert chosen(32, dtypes.float32).window == (CUDA.forward_progress)
    assert not chosen(128, dtypes.float64).window
    assert chosen(300, dtypes.float32).items <= CUDA.max_workgroup
