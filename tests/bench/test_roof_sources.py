"""The kernels that measure roofs, compiled for GPUs that are not here."""

from __future__ import annotations

import pytest

import portable as pt
from portable.backend import Capabilities
from portable.dtypes import DType
from portable.lang.emit import generate
from portable.lang.frontend.compile import translate
from portable.lang.ir.kernel import Options
from portable.lang.signature import ArraySpec, ScalarSpec, Specialisation
from portable_bench.roof_kernels import copy, multiply_add, multiply_tiles
from tests.support.compilers import CUDA, HIP, compile_cuda, compile_hip, cuda_missing, hip_missing

INTEGER, NUMBER = ScalarSpec("int"), ScalarSpec("float")
DTYPES = [pt.float16, pt.float32, pt.float64]


def compiled(kernel: pt.Kernel, special: Specialisation, target: Capabilities) -> None:
    missing = cuda_missing() if target is CUDA else hip_missing()
    if missing:
        pytest.skip(str(missing))
    program = generate(translate(kernel.python, special, target), target)
    (compile_cuda if target is CUDA else compile_hip)(program)


def launched(specs: tuple[object, ...], constants: dict[str, object]) -> Specialisation:
    return Specialisation(specs, tuple(constants.items()), (256, 1, 1), False, True, Options())


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


@pytest.mark.parametrize("target", [CUDA, HIP], ids=lambda target: target.dialect)
def test_copy(target: Capabilities) -> None:
    vector = ArraySpec(pt.float32, ("unit",), aligned=True)
    compiled(copy, launched((vector, vector), {"LANES": 4}), target)
