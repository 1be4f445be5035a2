"""The kernels that measure roofs, compiled for GPUs that are not here."""

from __future__ import annotations

from dataclasses import replace

import pytest

import portable as pt
from portable.backend import Capabilities, Program
from portable.dtypes import DType
from portable.lang.arguments.arguments import ArraySpec, ScalarSpec, Specialisation
from portable.lang.emit import generate
from portable.lang.frontend.compile import translate
from portable.lang.ir.kernel import Options
from portable.linalg.products.model import multiplying
from portable.linalg.products.tuning import candidates
from portable_bench.roof_launches import copy, multiply_add, multiply_tiles
from tests.bench.fakes import FakeDevice
from tests.support.compilers import (
    CUDA,
    HIP,
    compile_cuda,
    compile_cuda_together,
    compile_hip_together,
    cuda_missing,
    hip_missing,
)

INTEGER, NUMBER = ScalarSpec("int"), ScalarSpec("float")
DTYPES = [pt.float16, pt.float32, pt.float64]


def generated(kernel: pt.Kernel, special: Specialisation, target: Capabilities) -> Program:
    return generate(translate(kernel.python, special, target), target)


def launched(
    specs: tuple[object, ...], constants: dict[str, object], items: int = 256
) -> Specialisation:
    return Specialisation(specs, tuple(constants.items()), (items, 1, 1), False, True, Options())


def on_registers(dtype: DType) -> Specialisation:
    vector = ArraySpec(dtype, ("unit",), aligned=True)
    return launched((vector, INTEGER), {"CHAINS": 8, "LANES": 1})


def on_matrix_units(dtype: DType) -> Specialisation:
    matrix, sums = (ArraySpec(kind, ("any", "unit"), True) for kind in (dtype, dtype.register))
    constants = {"BM": 64, "BN": 64, "BK": 16, "ACC": dtype.register}
    return launched((matrix, matrix, sums, INTEGER, NUMBER), constants)


@pytest.mark.parametrize("target", [CUDA, HIP], ids=lambda target: target.dialect)
def test_all_compile(target: Capabilities) -> None:
    missing = hip_missing() if target is HIP else cuda_missing()
    if missing:
        pytest.skip(str(missing))
    vector = ArraySpec(pt.float32, ("unit",), aligned=True)
    programs = [generated(copy, launched((vector, vector), {"LANES": 4}), target)]
    programs += [generated(multiply_add, on_registers(dtype), target) for dtype in DTYPES]
    programs += [generated(multiply_tiles, on_matrix_units(dtype), target) for dtype in DTYPES]
    (compile_hip_together if target is HIP else compile_cuda_together)(programs)


@pytest.mark.parametrize(("dtype", "word"), [(pt.float16, "wgmma"), (pt.float64, "mma.sync")])
def test_the_tiles_that_gemm_prefers_reach_the_matrix_units(dtype: DType, word: str) -> None:
    device = FakeDevice("cuda:0", "gpu")
    units, copies = CUDA.matrix_units | {"wgmma.f16"}, CUDA.async_copy | {"tensor"}
    device.capabilities = replace(CUDA, matrix_units=units, async_copy=copies)
    tiles = candidates(device, dtype, "matrix", (8192, 8192, 1))[0]
    matrix, sums = (ArraySpec(kind, ("any", "unit"), True) for kind in (dtype, dtype.register))
    constants = {name: tiles[name] for name in ("BM", "BN", "BK")} | {"ACC": dtype.register}
    special = launched((matrix, matrix, sums, INTEGER, NUMBER), constants, multiplying(tiles))
    program = generated(multiply_tiles, special, device.capabilities)
    assert word in program.source
    if cuda_missing():
        pytest.skip(str(cuda_missing()))
    compile_cuda(program, "sm_90a")
