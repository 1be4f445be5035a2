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
from portable.linalg.gemm_launches import tiles_launch
from portable.tune.table import lookup
from tests.support.compilers import CUDA, HIP, compile_cuda, compile_hip, cuda_missing, hip_missing

SCALAR, NONE = ScalarSpec("float"), StaticSpec(None)


def wanted(dtype: DType, target: Capabilities, b_columns: bool) -> Specialisation:
    """The launch of the device's first choice of tiles."""
    kernels = ("gemm_nt", "gemm") if b_columns else ("gemm",)
    choice = next(x for kernel in kernels for x in lookup(kernel, dtype, target))
    workgroup = (choice["WORKGROUP"], 1, 1)
    constants = tiles_launch(choice, (1, 1), {"ACC": dtype.register, "ACTIVATION": relu}).constants
    matrix = ArraySpec(dtype, ("any", "unit"), aligned=True)
    right = ArraySpec(dtype, ("unit", "any"), aligned=True) if b_columns else matrix
    specs = (SCALAR, matrix, right, SCALAR, NONE, NONE, matrix)
    return Specialisation(specs, tuple(constants.items()), workgroup, False, True, Options())


@pytest.mark.parametrize(
    ("dtype", "b_columns"),
    [(pt.float16, False), (pt.float32, False), (pt.float32, True), (pt.float64, False)],
)
@pytest.mark.parametrize("target", [CUDA, HIP], ids=lambda target: target.dialect)
def test_the_tile_kernel_compiles(dtype: DType, target: Capabilities, b_columns: bool) -> None:
    missing = cuda_missing() if target is CUDA else hip_missing()
    if missing:
        pytest.skip(str(missing))
    program = generate(
        translate(gemm_tiles.python, wanted(dtype, target, b_columns), target), target
    )
    (compile_cuda if target is CUDA else compile_hip)(program)
