"""The products behind convolutions, compiled for an H200 that is not here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import portable as pt
from portable.conv.direct.box_kernels import (
    BoxPlan,
    Gathering,
    gather_patches,
    multiply_boxes,
    sum_boxes,
)
from portable.conv.direct.grouped import GroupPlan, convolve_groups
from portable.conv.geometry import Window
from portable.dtypes import DType
from portable.lang.arguments.arguments import ArraySpec, ScalarSpec, Specialisation, StaticSpec
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
    "PLAN": BoxPlan(WINDOW, (1, 8, 16), Tiling(128, 64, 64, 4, units=True, warp_specialised=True)),
    "ACTIVATION": keep,
    "ACC": pt.float32,
}
SUMS = {
    "PLAN": BoxPlan(WINDOW, (1, 8, 8), Tiling(128, 64, 64, 4, units=True, warp_specialised=True)),
    "ACC": pt.float32,
}


def source(
    kernel: Kernel, dtype: DType, dims: tuple[int, ...], constants: dict[str, Any], items: int
) -> str:
    """The PTX for arrays of so many dimensions, all of them in the plainest layout."""
    specs = [ArraySpec(dtype, (*["any"] * (n - 1), "unit"), aligned=True, boxed=True) for n in dims]
    more = [StaticSpec(None)] * {sum_boxes: 0, multiply_boxes: 2}[kernel]
    wanted = Specialisation(
        (*specs, *more), tuple(constants.items()), (items, 1, 1), False, True, Options()
    )
    program = generate(translate(kernel.python, wanted, HOPPER), HOPPER)
    return compile_cuda(program, "sm_90a", optimised=True)


def test_they_compile() -> None:
    if cuda_missing():
        pytest.skip(str(cuda_missing()))
    boxes = source(multiply_boxes, pt.float16, (4, 4, 4), BOXES, 384)
    plan = BOXES["PLAN"]._replace(window=Window((3, 3), (2, 2), (1, 1), (1, 1)))
    strided = source(multiply_boxes, pt.float16, (4, 4, 4), {**BOXES, "PLAN": plan}, 384)
    for taken in (boxes, strided):
        assert "cp.async.bulk.tensor.4d" in taken
        assert "wgmma" in taken
    blocks = {**BOXES, "PLAN": BOXES["PLAN"]._replace(blocks=4)}
    taken = source(multiply_boxes, pt.float16, (5, 4, 5), blocks, 384)
    assert "cp.async.bulk.tensor.5d" in taken
    assert "wgmma" in taken
    sums = source(sum_boxes, pt.float16, (4, 4, 5), SUMS, 288)
    assert "cp.async.bulk.tensor.4d" in sums
    assert "wgmma" in sums


@pytest.mark.parametrize(("piece", "loads"), [(1, "ld.global.nc.u16"), (8, "ld.global.nc.v4")])
def test_patches_are_written_by_vectors(piece: int, loads: str) -> None:
    """Of 16 bytes, and read so where they hold channels of one tap alone."""
    if cuda_missing():
        pytest.skip(str(cuda_missing()))
    plan = {"PLAN": Gathering(WINDOW, 8, piece, 4)}
    image = ArraySpec(pt.float16, ("any", "unit", "any", "any"), aligned=True)
    rows = ArraySpec(pt.float16, ("any", "any", "any", "unit"), aligned=True)
    wanted = Specialisation((image, rows), tuple(plan.items()), (256, 1, 1), False, True, Options())
    program = generate(translate(gather_patches.python, wanted, HOPPER), HOPPER)
    ptx = compile_cuda(program, "sm_90a", optimised=True)
    assert ptx.count("st.global.v4") == 4
    assert loads in ptx


@pytest.mark.parametrize(
    ("dtype", "tile", "filters", "lanes", "fast"),
    [(pt.float16, (2, 4), 1, 4, True), (pt.float32, (8, 1), 1, 1, False)],
)
def test_depthwise_compiles(
    dtype: DType, tile: tuple[int, int], filters: int, lanes: int, fast: bool
) -> None:
    """Vectors of halves are loaded at once where channels are neighbours."""
    if cuda_missing():
        pytest.skip(str(cuda_missing()))
    window = Window((7, 7), (1, 1), (3, 3), (1, 1))
    plan = GroupPlan(window, tile, filters, lanes, 1, True, fast, keep, lanewise=True)
    layout = ("any", "unit", "any", "any") if fast else ("any", "any", "any", "unit")
    images = ArraySpec(dtype, layout, aligned=True)
    weights = ArraySpec(pt.float32, ("any", "any", "any", "unit"), aligned=True)
    wanted = Specialisation(
        (images, weights, images, StaticSpec(None), StaticSpec(None), ScalarSpec(pt.int32)),
        (("PLAN", plan),), (128, 1, 1), False, True, Options(),
    )  # fmt: skip
    program = generate(translate(convolve_groups.python, wanted, HOPPER), HOPPER)
    made = compile_cuda(program, "sm_90a", optimised=True)
    assert made.count("fma.rn.f32") >= 49 * tile[0] * tile[1] * lanes
    assert (".v4." in made or ".v2." in made) == fast
