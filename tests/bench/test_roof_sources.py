"""The kernels that measure roofs, compiled for GPUs that are not here."""

from __future__ import annotations

from dataclasses import replace

import pytest

import portable as pt
from portable.backend import Capabilities
from portable.dtypes import DType
from portable.lang.arguments.arguments import ArraySpec, ScalarSpec, Specialisation
from portable.lang.emit import generate
from portable.lang.frontend.compile import translate
from portable.lang.ir.kernel import Options
from portable.linalg.products.tuning import candidates, multiplying
from portable_bench.roof_launches import copy, multiply_add, multiply_tiles
from tests.bench.fakes import FakeDevice
from tests.support.compilers import CUDA, HIP, compile_cuda, compile_hip, cuda_missing, hip_missing

INTEGER, NUMBER = ScalarSpec("int"), ScalarSpec("float")
DTYPES = [pt.float16, pt.float32, pt.float64]


def compiled(kernel: pt.Kernel, special: Specialisation, target: Capabilities) -> str:
    missing = hip_missing() if target is HIP else cuda_missing()
    if missing:
        pytest.skip(str(missing))
    program = generate(translate(kernel.python, special, target), target)
    if target is HIP:
        compile_hip(program)
    else:
        compile_cuda(program, "sm_90a")
    return program.source


def launched(
    specs: tuple[object, ...], constants: dict[str, object], items: int = 256
) -> Specialisation:
    return Specialisation(specs, tuple(constants.items()), (items, 1, 1), False, True, Options())


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
@pytest.mark.parametrize("target", [CUDA, HIP], ids=lambda target: target.dialect)
def test_registers(dtype: DType, target: Capabilities) -> None:
    vector = ArraySpec(dtype, ("unit",), aligned=True)
    compiled(multiply_add, launched((vector, INTEGER), {"CHAINS": 8, "LANES": 1}), target)


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
@pytest.mark.parametrize("target", [CUDA, HIP], ids=lambda target: target.dialect)
def test_matrix_units(dtype: DType, target: Capabilities) -> None:
    matrix, sums = (ArraySpec(kind, ("any", "unit"), True) for kind in (dtype, dtype.register))
    constants = {"BM": 64, "BN": 64, "BK": 16, "ACC": dtype.register}
    specs = (matrix, matrix, sums, INTEGER, NUMBER)
    compiled(multiply_tiles, launched(specs, constants), target)


@pytest.mark.parametrize(("dtype", "word"), [(pt.float16, "wgmma"), (pt.float64, "mma.sync")])
def test_the_tiles_that_gemm_prefers_reach_the_matrix_units(dtype: DType, word: str) -> None:
    device = FakeDevice("cuda:0", "gpu")
    units, copies = CUDA.matrix_units | {"wgmma.f16"}, CUDA.async_copy | {"tensor"}
    device.capabilities = replace(CUDA, matrix_units=units, async_copy=copies)
    tiles = candidates(device, dtype, "matrix", (8192, 8192, 1))[0]
    matrix, sums = (ArraySpec(kind, ("any", "unit"), True) for kind in (dtype, dtype.register))
    constants = {name: tiles[name] for name in ("BM", "BN", "BK")} | {"ACC": dtype.register}
    special = launched((matrix, matrix, sums, INTEGER, NUMBER), constants, multiplying(tiles))
    assert word in compiled(multiply_tiles, special, device.capabilities)


@pytest.mark.parametrize("target", [CUDA, HIP], ids=lambda target: target.dialect)
def test_copy(target: Capabilities) -> None:
    vector = ArraySpec(pt.float32, ("unit",), aligned=True)
    compiled(copy, launched((vector, vector), {"LANES": 4}), target)
