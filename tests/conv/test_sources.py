"""The products behind convolutions, compiled for an H200 that is not here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import portable as pt
from portable.conv.direct.box_kernels import BoxPlan, multiply_boxes, sum_boxes
from portable.conv.geometry import Window
from portable.conv.winograd.product_kernels import multiply_many
from portable.dtypes import DType
from portable.lang.arguments.signature import ArraySpec, Specialisation, StaticSpec
from portable.lang.emit import generate
from portable.lang.frontend.compile import translate
from portable.lang.ir.kernel import Options
from portable.lang.kernel import Kernel
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.kernels import keep
from tests.support.compilers import CUDA, compile_cuda, cuda_missing

HOPPER = replace(
    CUDA,
    matrix_units=CUDA.matrix_units | {"wgmma.f16"},
    async_copy=CUDA.async_copy | {"tensor"},
)
WINDOW = Window((3, 3), (1, 1), (1, 1), (1, 1))
BOXES = {
    "PLAN": BoxPlan(WINDOW, (1, 8, 16), Tiling(128, 64, 64, 4, units=True, apart=True)),
    "ACTIVATION": keep,
    "ACC": pt.float32,
}
SUMS = {
    "PLAN": BoxPlan(WINDOW, (1, 8, 8), Tiling(128, 64, 64, 4, units=True, apart=True)),
    "ACC": pt.float32,
}
MANY = {
    "TILING": Tiling(64, 64, 32, 2, units=True, split=True), "RUN": 1, "DOWN": True,
    "ACC": pt.float32,
}  # fmt: skip


def source(
    kernel: Kernel, dtype: DType, dims: tuple[int, ...], constants: dict[str, Any], items: int
) -> str:
    """The PTX for arrays of so many dimensions, all of them in the plainest layout."""
    specs = [ArraySpec(dtype, (*["any"] * (n - 1), "unit"), aligned=True, boxed=True) for n in dims]
    more = [StaticSpec(None)] * {sum_boxes: 0, multiply_boxes: 2, multiply_many: 1}[kernel]
    wanted = Specialisation(
        (*specs, *more), tuple(constants.items()), (items, 1, 1), False, True, Options()
    )
    program = generate(translate(kernel.python, wanted, HOPPER), HOPPER)
    return compile_cuda(program, "sm_90a", optimised=True)


def test_they_compile() -> None:
    if cuda_missing():
        pytest.skip(str(cuda_missing()))
    boxes = source(multiply_boxes, pt.float16, (4, 3, 4), BOXES, 384)
    assert "cp.async.bulk.tensor.4d" in boxes
    assert "wgmma" in boxes
    sums = source(sum_boxes, pt.float16, (4, 4, 4), SUMS, 288)
    assert "cp.async.bulk.tensor.4d" in sums
    assert "wgmma" in sums
    many = source(multiply_many, pt.float32, (5, 5, 5), MANY, 128)
    assert many.count("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32") == 3 * 4 * 2 * 4
