"""The tile kernel of gemm, compiled for GPUs that are not here."""

from __future__ import annotations

import pytest

import portable as pt
from portable.backend import Capabilities
from portable.dtypes import DType
from portable.lang.emit import generate
from portable.lang.frontend.compile import translate
from portable.lang.ir.kernel import Options
from portable.lang.signature import ArraySpec, ScalarSpec, Specialisation, StaticSpec
from portable.linalg.gemm_kernels import gemm_tiles, relu
from portable.tune.table import lookup
from tests.support.compilers import CUDA, HIP, compile_cuda, compile_hip, cuda_missing, hip_missing

SCALAR, NONE = ScalarSpec("float"), StaticSpec(None)


def wanted(dtype: DType, target: Capabilities) -> Specialisation:
    """The launch of the device's first choice of tiles."""
    choice = dict(lookup("gemm", dtype, target)[0])
    workgroup = (choice.pop("WORKGROUP"), 1, 1)
    constants = {**choice, "ACC": dtype.register, "ACTIVATION": relu}
    matrix = ArraySpec(dtype, ("any", "unit"), aligned=True)
    specs = (SCALAR, matrix, matrix, SCALAR, NONE, NONE, matrix)
    return Specialisation(specs, tuple(constants.items()), workgroup, False, True, Options())


@pytest.mark.parametrize("dtype", [pt.float16, pt.float32, pt.float64], ids=repr)
@pytest.mark.parametrize("target", [CUDA, HIP], ids=lambda target: target.dialect)
def test_the_tile_kernel_compiles(dtype: DType, target: Capabilities) -> None:
    missing = cuda_missing() if target is CUDA else hip_missing()
    if missing:
        pytest.skip(str(missing))
    program = generate(translate(gemm_tiles.python, wanted(dtype, target), target), target)
    (compile_cuda if target is CUDA else compile_hip)(program)
