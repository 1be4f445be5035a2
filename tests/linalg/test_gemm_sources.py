"""The tile kernel of gemm, compiled for GPUs that are not here."""

from __future__ import annotations

from dataclasses import replace

import pytest

import portable as pt
from portable.backend import Capabilities, profiles
from portable.dtypes import DType
from portable.lang.arguments.arguments import ArraySpec, ScalarSpec, Specialisation, StaticSpec
from portable.lang.emit import generate
from portable.lang.emit.opencl import COVER
from portable.lang.frontend.compile import translate
from portable.lang.ir.kernel import Options
from portable.lang.ir.types import StrideClass
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.kernels import gemm_shares, gemm_tiles, relu
from portable.linalg.products.launches import tiles_launch
from portable.linalg.products.tuning import SPACE, SPACE_NT
from portable.tune.table import lookup
from tests.support.compilers import (
    CUDA,
    HIP,
    compile_cuda,
    compile_cuda_together,
    compile_hip_together,
    cuda_missing,
    hip_missing,
)

HOPPER = replace(
    CUDA,
    matrix_units=CUDA.matrix_units | {"wgmma.f16"},
    async_copy=CUDA.async_copy | {"tensor"},
)
SCALAR, NONE = ScalarSpec("float"), StaticSpec(None)


def wanted(
    dtype: DType, target: Capabilities, b_columns: bool, lead: tuple[StrideClass, ...] = ()
) -> Specialisation:
    """The launch of the device's first choice of tiles; `lead`: strides of leading dimensions."""
    spaces = (SPACE_NT, SPACE) if b_columns else (SPACE,)
    choice = next(x for space in spaces for x in lookup(space, dtype, target))
    workgroup = (choice["WORKGROUP"], 1, 1)
    constants = tiles_launch(choice, (1, 1), {"ACC": dtype.register, "ACTIVATION": relu}).constants
    boxed = "zero" not in lead
    matrix = ArraySpec(dtype, (*lead, "any", "unit"), aligned=True, boxed=boxed)
    columns = ArraySpec(dtype, (*lead, "unit", "any"), aligned=True, boxed=boxed)
    right = columns if b_columns else matrix
    specs = (SCALAR, matrix, right, SCALAR, NONE, NONE, matrix)
    return Specialisation(specs, tuple(constants.items()), workgroup, False, True, Options())


TILED = (pt.float16, False), (pt.float32, False), (pt.float32, True), (pt.float64, False)
"""Types, and whether the right operand has its columns side by side."""


@pytest.mark.parametrize("target", [CUDA, HIP], ids=lambda target: target.dialect)
def test_the_tile_kernel_compiles(target: Capabilities) -> None:
    missing = cuda_missing() if target is CUDA else hip_missing()
    if missing:
        pytest.skip(str(missing))
    kernels = [
        translate(gemm_tiles.python, wanted(dtype, target, b_columns), target)
        for dtype, b_columns in TILED
    ]
    programs = [generate(kernel, target) for kernel in kernels]
    (compile_cuda_together if target is CUDA else compile_hip_together)(programs)


@pytest.mark.parametrize("b_columns", [False, True])
@pytest.mark.parametrize(("lead", "engine"), [((), True), (("any",), True), (("zero",), False)])
def test_hoppers_copy_engine_fills_the_ring(
    lead: tuple[StrideClass, ...], engine: bool, b_columns: bool
) -> None:
    """Of arrays that can be described to it, batches of matrices among them."""
    specialised = wanted(pt.float16, HOPPER, b_columns, lead)
    program = generate(translate(gemm_tiles.python, specialised, HOPPER), HOPPER)
    boxes = [x.box.dims for x in program.arguments if x.box is not None]
    whole = tuple(range(len(lead) + 2))
    rows, columns = whole[::-1], (*whole[-2:], *whole[:-2][::-1])
    assert boxes == ([rows, columns if b_columns else rows] if engine else [])
    assert ("cp.async.bulk.tensor" in program.source) == engine
    if engine and cuda_missing():
        pytest.skip(str(cuda_missing()))
    if engine:
        compile_cuda(program, "sm_90a")


@pytest.mark.parametrize("dtype", [pt.float16, pt.float32])
def test_a_bias_is_read_without_branches(dtype: DType) -> None:
    """So that its elements are on their way together."""
    plain = wanted(dtype, HOPPER, False)
    biased = list(plain.parameters)
    biased[5] = ArraySpec(dtype, ("unit",), aligned=True)
    programs = [
        generate(translate(gemm_tiles.python, replace(plain, parameters=x), HOPPER), HOPPER)
        for x in (plain.parameters, tuple(biased))
    ]
    without, added = (x.source.count("if (") for x in programs)
    assert added == without


@pytest.mark.parametrize("persistent", [False, True])
def test_a_warpgroup_that_asks_for_copies_lends_registers(persistent: bool) -> None:
    """For tiles in turn, where sums and a bias for the next ones took more than there are."""
    specialised = wanted(pt.float16, HOPPER, False)
    constants = dict(specialised.constants)
    constants["TILING"] = constants["TILING"]._replace(persistent=persistent)
    specialised = replace(specialised, constants=tuple(constants.items()))
    program = generate(translate(gemm_tiles.python, specialised, HOPPER), HOPPER)
    copies, multiplies = program.source.split("cp.async.bulk.tensor", 1)
    assert ("setmaxnreg.dec.sync.aligned.u32" in copies) == persistent
    assert ("setmaxnreg.inc.sync.aligned.u32" in multiplies) == persistent


def test_the_kernel_that_shares_tiles_out_compiles() -> None:
    if cuda_missing():
        pytest.skip(str(cuda_missing()))
    matrix = ArraySpec(pt.float64, ("any", "unit"), aligned=True)
    parts = ArraySpec(pt.float64, ("any", "any", "unit"), aligned=True)
    tiling = Tiling(128, 128, 32, 3, units=True)
    constants = ("TILING", tiling), ("ACC", pt.float64), ("ACTIVATION", relu)
    specs = SCALAR, matrix, matrix, NONE, parts, matrix
    specialised = Specialisation(specs, constants, (256, 1, 1), False, True, Options())
    program = generate(translate(gemm_shares.python, specialised, CUDA), CUDA)
    assert "m16n8k8" in program.source
    assert "cp.async.wait_group" in program.source
    compile_cuda(program)


def test_warpgroups_that_trade_halves_are_seen_to_be_together() -> None:
    """The compiler takes warps for parted where some of a workgroup's have another part.

    It then makes code for either case, and has no registers for both.
    """
    specialised = wanted(pt.float16, HOPPER, False)
    program = generate(translate(gemm_tiles.python, specialised, HOPPER), HOPPER)
    before = program.source.split("shfl.sync", 1)[0]
    assert "wgmma.wait_group.sync.aligned 0" in before[before.rindex("if (") :]


@pytest.mark.parametrize("persistent", [False, True])
def test_opencl_has_warpgroup_instructions_in_comments(persistent: bool) -> None:
    """For its compiler must not see them; local memory begins where swizzled rows have to."""
    target = profiles.load("nvidia-opencl").capabilities
    specialised = wanted(pt.float16, HOPPER, False)
    constants = dict(specialised.constants)
    constants["TILING"] = constants["TILING"]._replace(persistent=persistent)
    specialised = replace(specialised, constants=tuple(constants.items()))
    source = generate(translate(gemm_tiles.python, specialised, target), target).source
    for word in ("wgmma.mma_async", "wgmma.commit_group", "wgmma.wait_group"):
        assert word in source
    assert source.count("wgmma.") == source.count(f"{COVER}wgmma.")
    assert "setmaxnreg" not in source.replace(f"{COVER}setmaxnreg", "")
    assert "__attribute__((aligned(1024)));" in source
    assert "long long" not in source


@pytest.mark.parametrize("dtype", [pt.float32, pt.float64])
@pytest.mark.parametrize("split_k", [False, True])
def test_a_rounds_operands_are_loaded_in_the_round_before(split_k: bool, dtype: DType) -> None:
    """So the first ones are waited for before the loop: a seventh of the time on an H200.

    Copies begin behind what multiplies these, which can start at once; those of doubles have
    multiplications between them.
    """
    specialised = wanted(dtype, CUDA, False)
    if split_k:
        known = dict(specialised.constants)
        tiling = known["TILING"]._replace(split_k=True)
        constants = tuple((known | {"TILING": tiling}).items())
        sums = ArraySpec(dtype, ("any", "any", "unit"), aligned=True)
        parameters = (*specialised.parameters[:-1], sums)
        specialised = replace(specialised, parameters=parameters, constants=constants)
    program = generate(translate(gemm_tiles.python, specialised, CUDA), CUDA)
    before, loop = program.source.split("for (int step_", 1)
    assert "cp.async.wait_group" in before
    multiplied = "mma.sync" if dtype is pt.float64 else "acc_1["
    assert loop.index(multiplied) < loop.index("cp.async") < loop.rindex(multiplied)
    if dtype is pt.float64:
        copies = loop[loop.index("cp.async.cg") : loop.rindex("cp.async.cg")]
        assert multiplied in copies


@pytest.mark.parametrize("b_columns", [False, True])
def test_processors_ask_for_the_next_tiles_while_they_multiply(b_columns: bool) -> None:
    """A few lines of either operand before each micro-tile; none of them is an access."""
    core = pt.device("simulator:intel-cpu").capabilities
    program = generate(
        translate(gemm_tiles.python, wanted(pt.float32, core, b_columns), core), core
    )
    multiplied = program.source.split("tile_b_1 + ", 1)[1]
    assert multiplied.count("__builtin_prefetch") == 2
    assert "const float *restrict a" in program.source
    assert "const float *restrict b" in program.source
