"""Matrix fragments on NVIDIA's matrix units: emulated, and compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable import lang as kl
from portable import sim
from portable.backend import Box, Capabilities
from portable.dtypes import DType
from portable.lang.emit import generate
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.walks import all_statements
from portable.lang.kernel import Kernel as Marked
from portable.lang.kernel import kernel
from portable.lang.tiles import lower, lower_matrices
from portable.lang.tiles.mma_shapes import LANES, MMA_F16, RegisterLayout
from tests.support.compilers import compile_cuda, cuda_missing
from tests.support.matrices import (
    AMPERE,
    ENGINE,
    HOPPER,
    OPENCL,
    Reader,
    doubled,
    in_turn,
    operands,
    sizes_of,
    translated,
)


@kernel
def product(a: Any, b: Any, out: Any, *, BM: int, BN: int, BK: int, STAGES: int) -> None:
    m, n, k = out.shape[0], out.shape[1], a.shape[1]
    row, column = kl.group_id(1) * BM, kl.group_id(0) * BN
    tile_a = kl.local((STAGES, BM, BK), a.dtype)
    tile_b = kl.local((STAGES, BK, BN), b.dtype)
    acc = kl.matrix((BM, BN), kl.accumulator(a.dtype), scope="workgroup")
    acc.fill(0)
    tiles, reader = (tile_a, tile_b), Reader(a, b, row, column)
    for stage in kl.static_range(STAGES - 1):
        reader.start(tile_a[stage], tile_b[stage], stage)
        kl.copy_commit()
    kl.pipeline(acc, tiles, reader.start, 0, kl.cdiv(k, BK), ahead=STAGES - 1)
    for i, j, value in kl.elements(acc):
        if row + i < m and column + j < n:
            out[row + i, column + j] = value


@kernel
def rounded(a: Any, b: Any, out: Any, *, BM: int, BN: int, BK: int) -> None:
    row, column = kl.group_id(1) * BM, kl.group_id(0) * BN
    tile_a, tile_b = kl.local((BM, BK), a.dtype), kl.local((BK, BN), b.dtype)
    kl.copy(tile_a, a[row : row + BM, 0:BK])
    kl.copy(tile_b, b[0:BK, column : column + BN])
    kl.barrier()
    acc = kl.matrix((BM, BN), kl.f32, scope="workgroup")
    acc.fill(0)
    kl.mma(acc, tile_a, tile_b)
    acc.store(out[row : row + BM, column : column + BN])


@kernel
def by_fragments(
    a: Any, b: Any, out: Any, *, M: int, N: int, K: int, SHIFT: int, LOCAL: bool
) -> None:
    tile = kl.local((K, N), b.dtype)
    kl.copy(tile, b[0:K, 0:N])
    kl.barrier()
    warp = kl.sub_group_id()
    left = kl.matrix((M, K), a.dtype, scope="sub_group", use="a")
    right = kl.matrix((K, N), b.dtype, scope="sub_group", use="b")
    total = kl.matrix((M, N), kl.accumulator(a.dtype), scope="sub_group")
    left.load(a[warp * M : warp * M + M, 0:K])
    if LOCAL:
        right.load(tile[0:K, 0:N])
    else:
        right.load(b[0:K, 0:N])
    total.load(out[warp * M : warp * M + M, 0:N])
    kl.mma(total, left, right)
    total.map(doubled)
    kl.barrier()
    start = kl.group_id(0) - SHIFT
    total.store(out[warp * M : warp * M + M, start : start + N])


def names(lowered: Kernel) -> set[str]:
    return {x.name for x in all_statements(lowered.body) if isinstance(x, s.Instruction)}


LAYOUTS = ["rr", "cr", "rc", "cc"]
CASES = {
    "wgmma": (ENGINE, dt.float16, 128, (64, 64, 64), 2, "wgmma.f16.m64n64k16"),
    "wgmma in two rows": (ENGINE, dt.float16, 256, (128, 64, 64), 3, "wgmma.f16.m64n64k16"),
    "wgmma in two columns": (ENGINE, dt.float16, 256, (64, 128, 64), 2, "wgmma.f16.m64n64k16"),
    "wgmma in blocks": (ENGINE, dt.float16, 128, (128, 128, 128), 1, "wgmma.f16.m64n128k16"),
    "halves": (AMPERE, dt.float16, 128, (64, 64, 32), 2, "mma.f16.m16n8k16"),
    "halves in odd columns": (AMPERE, dt.float16, 32, (16, 24, 16), 2, "mma.f16.m16n8k16"),
    "halves in one stage": (AMPERE, dt.float16, 64, (32, 32, 48), 1, "mma.f16.m16n8k16"),
    "halves in OpenCL": (OPENCL, dt.float16, 128, (128, 128, 32), 3, "mma.f16.m16n8k16"),
    "doubles": (HOPPER, dt.float64, 64, (32, 32, 16), 3, "mma.f64.m16n8k8"),
    "doubles of few steps": (HOPPER, dt.float64, 64, (32, 32, 8), 3, "mma.f64.m16n8k4"),
    "doubles of eight rows": (AMPERE, dt.float64, 32, (8, 16, 4), 2, "mma.f64.m8n8k4"),
}


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_products_are_right_on_emulated_units(case: str, layouts: str) -> None:
    on, kind, items, (bm, bn, bk), stages, instruction = CASES[case]
    sizes = sizes_of((bm, bn, bk), stages)
    out = dt.float64 if kind is dt.float64 else dt.float32
    lowered = lower(translated(product, kind, out, items, on, layouts, **sizes), on)
    assert instruction in names(lowered)
    m, n, k = bm + 3, bn + 5, 2 * bk + bk // 2
    a, b = operands(m, n, k, kind, layouts)
    c = np.full((m, n), np.nan, out.numpy)
    sim.run(lowered, (2, 2, 1), (a, b, c))
    assert (c == a.astype(np.float64) @ b.astype(np.float64)).all()


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize(("items", "tile"), [(256, (64, 128, 64)), (384, (128, 64, 64))])
def test_a_warpgroup_of_its_own_copies(
    items: int, tile: tuple[int, int, int], layouts: str
) -> None:
    sizes = sizes_of(tile, 3)
    made = translated(in_turn, dt.float16, dt.float32, items, HOPPER, layouts, **sizes)
    lowered = lower_matrices(made, HOPPER)
    wanted = {"mbarrier.wait", "mbarrier.arrive.copied", "proxy.fence", "wgmma.wait.1"}
    assert wanted <= names(lowered)
    copies = [x for x in all_statements(lowered.body) if isinstance(x, s.CopyTile)]
    assert {x.by for x in copies} == {(items - 128, 128)}
    check_in_turn(made, HOPPER, tile, layouts)


def check_in_turn(made: Kernel, on: Capabilities, tile: tuple[int, int, int], layouts: str) -> None:
    """Runs `in_turn` over two tiles, which reach beyond the result; the slots are used again."""
    bm, bn, bk = tile
    m, n, k = bm - 3, bn + 5, 4 * bk - 10
    a, b = operands(m, n, k, dt.float16, layouts)
    c = np.full((m, n), np.nan, np.float32)
    sim.run(made, (2, 1, 1), (a, b, c), target=on)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    rows, columns = np.indices(expected.shape)
    expected[rows % bm == columns % bn] *= 2
    assert (c == expected).all()


@pytest.mark.parametrize("layouts", ["RR", "CR", "RC", "CC"])
@pytest.mark.parametrize(
    ("items", "tile"), [(160, (64, 64, 64)), (256, (64, 128, 64)), (384, (128, 64, 64))]
)
def test_one_work_item_asks_a_copy_engine(
    items: int, tile: tuple[int, int, int], layouts: str
) -> None:
    made = translated(in_turn, dt.float16, dt.float32, items, ENGINE, layouts, **sizes_of(tile, 3))
    lowered = lower_matrices(made, ENGINE)
    found = names(lowered)
    assert {"mbarrier.wait", "mbarrier.arrive.expecting", "wgmma.wait.1"} <= found
    assert not {"mbarrier.arrive.copied"} & found
    copies = [x for x in all_statements(lowered.body) if isinstance(x, s.CopyTile)]
    assert {x.by for x in copies} == {(tile[0] * 2, 1)}
    (expecting,) = (
        x
        for x in all_statements(lowered.body)
        if isinstance(x, s.Instruction) and x.name == "mbarrier.arrive.expecting"
    )
    assert [x.value for x in expecting.inputs if isinstance(x, e.Const)] == [
        sum(tile[i] * tile[2] * 2 for i in (0, 1))
    ]
    check_in_turn(made, ENGINE, tile, layouts.lower())


def test_a_copy_engine_is_told_of_boxes() -> None:
    sizes = sizes_of((128, 64, 64), 3)
    made = translated(in_turn, dt.float16, dt.float32, 384, ENGINE, "RC", **sizes)
    program = generate(made, ENGINE)
    boxes = [x for x in program.arguments if x.kind == "box"]
    assert [(x.parameter, x.box) for x in boxes] == [
        (0, Box((1, 0), (64, 128), (1, 1), 8)),
        (1, Box((0, 1), (64, 64), (1, 1), 8)),
    ]
    assert "cp.async.bulk.tensor.2d" in program.source
    assert "const __grid_constant__ pt_boxes a_boxes" in program.source
    if cuda_missing():
        pytest.skip(str(cuda_missing()))
    compile_cuda(program, "sm_90a")


def test_opencl_finds_what_tells_of_boxes_by_the_number_of_the_parameter() -> None:
    sizes, through = sizes_of((128, 64, 64), 3), replace(ENGINE, dialect="opencl", vendor="nvidia")
    made = translated(in_turn, dt.float16, dt.float32, 384, through, "RC", **sizes)
    program = generate(made, through)
    signature = program.source.partition(f"void {program.entry}(")[2].partition(")")[0].split(",")
    boxes = [i for i, x in enumerate(program.arguments) if x.kind == "box"]
    assert len(boxes) == 2
    for i in boxes:
        name = signature[i].split()[-1]
        assert (
            f'mov.b64 %0, {program.entry}_param_{i}; cvta.param.u64 %0, %0;" : "=l"(pt_{name})'
            in (program.source)
        )
        assert f'"l"(pt_{name})' in program.source


@pytest.mark.parametrize("layouts", ["Rr", "rR"])
def test_a_copy_engine_is_not_asked_for_half_of_the_copies(layouts: str) -> None:
    sizes = sizes_of((128, 64, 64), 3)
    made = translated(in_turn, dt.float16, dt.float32, 384, ENGINE, layouts, **sizes)
    assert "mbarrier.arrive.copied" in names(lower_matrices(made, ENGINE))


def test_a_copy_engine_is_not_asked_for_what_the_kernel_may_write() -> None:
    sizes = sizes_of((128, 64, 64), 3)
    made = translated(in_turn, dt.float16, dt.float32, 384, ENGINE, "RR", restrict=False, **sizes)
    assert "mbarrier.arrive.copied" in names(lower_matrices(made, ENGINE))


@pytest.mark.parametrize(
    ("what", "items", "stages"), [(in_turn, 256, 2), (in_turn, 128, 3), (product, 256, 3)]
)
def test_other_loops_share_their_copies(what: Marked, items: int, stages: int) -> None:
    sizes = sizes_of((128, 64, 64), stages)
    made = translated(what, dt.float16, dt.float32, items, ENGINE, "rr", **sizes)
    lowered = lower_matrices(made, ENGINE)
    assert "wgmma.f16.m64n64k16" in names(lowered)
    assert "mbarrier.wait" not in names(lowered)


@pytest.mark.parametrize(
    ("on", "items", "tile"),
    [
        (ENGINE, 256, (128, 64, 64)),
        (ENGINE, 128, (64, 128, 64)),
        (ENGINE, 256, (64, 128, 64)),
        (AMPERE, 64, (32, 64, 16)),
        (OPENCL, 32, (16, 32, 16)),
    ],
)
def test_halves_are_stored_in_rows_of_eight(
    on: Capabilities, items: int, tile: tuple[int, int, int]
) -> None:
    bm, bn, bk = tile
    sizes = {"BM": bm, "BN": bn, "BK": bk}
    lowered = lower(
        translated(rounded, dt.float16, dt.float16, items, on, "RR", out="R", **sizes), on
    )
    assert {"store.v4.b32", "trade.1", "trade.2"} <= names(lowered)
    m, n = 2 * bm, bn + 8
    a, b = operands(m, n, bk, dt.float16, "rr")
    c = np.full((m, n), np.nan, np.float16)
    sim.run(lowered, (2, 2, 1), (a, b, c))
    assert (c == a.astype(np.float64) @ b.astype(np.float64)).all()


@pytest.mark.parametrize(("out", "columns"), [("r", 64), ("C", 64), ("R", 24)])
def test_halves_that_lie_otherwise_are_stored_in_pairs(out: str, columns: int) -> None:
    sizes = {"BM": 32, "BN": columns, "BK": 16}
    made = translated(rounded, dt.float16, dt.float16, 32, AMPERE, "RR", out=out, **sizes)
    found = names(lower_matrices(made, AMPERE))
    assert "mma.f16.m16n8k16" in found
    assert "store.v4.b32" not in found


@pytest.mark.parametrize("kind", [dt.float16, dt.float64], ids=repr)
@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize(
    ("local", "columns", "shift"), [(True, 24, 0), (False, 24, 0), (True, 23, 0), (False, 23, 1)]
)
def test_operands_may_be_fragments(
    local: bool, columns: int, shift: int, layouts: str, kind: DType
) -> None:
    """Elements are stored in pairs, of which the array's first and last column may cut one."""
    out = dt.float64 if kind is dt.float64 else dt.float32
    sizes = {"M": 16, "N": 24, "K": 32, "SHIFT": shift, "LOCAL": local}
    lowered = lower(translated(by_fragments, kind, out, 64, HOPPER, layouts, **sizes), HOPPER)
    assert any(name.startswith("mma.") for name in names(lowered))
    a, b = operands(30, columns, 32, kind, layouts)
    c = np.ones((30, columns), out.numpy)
    whole = np.zeros((30, 24 + shift))
    whole[:, :columns] = 1 + a.astype(np.float64) @ b.astype(np.float64)
    rows = np.arange(30)
    whole[rows, rows % 16] *= 2
    sim.run(lowered, (1, 1, 1), (a, b, c))
    assert (c == whole[:, shift : shift + columns]).all()


@pytest.mark.parametrize(
    ("kind", "items", "tile"),
    [
        (dt.float16, 48, (64, 64, 64)),
        (dt.float16, 128, (40, 64, 32)),
        (dt.float16, 128, (64, 64, 24)),
        (dt.float32, 128, (64, 64, 32)),
        (dt.float64, 32, (128, 128, 16)),
    ],
)
def test_other_shapes_and_types_do_without(
    kind: DType, items: int, tile: tuple[int, int, int]
) -> None:
    sizes = sizes_of(tile, 2)
    lowered = lower_matrices(translated(product, kind, kind, items, HOPPER, "rr", **sizes), HOPPER)
    assert not any("mma" in name for name in names(lowered))


def test_a_tile_of_panels_is_copied_in_whole_vectors() -> None:
    sizes = sizes_of((64, 128, 64), 2)
    made = translated(product, dt.float16, dt.float32, 128, HOPPER, "RR", **sizes)
    source = generate(made, HOPPER).source
    assert "cp.async.cg.shared.global [%0], [%1], 16" in source
    assert "cp.async.ca" not in source


@pytest.mark.parametrize("radices", [(2, 2, 4), (2, 2, 1, 3), (1, 2, 4, 2), (4,)])
def test_offsets_of_registers_are_a_formula_of_their_number(radices: tuple[int, ...]) -> None:
    steps = ((0, 1), (8, 0), (0, 2), (16, 3))
    layout = RegisterLayout((0, 2), (1, 0), tuple(zip(radices, steps, strict=False)))
    which = e.Variable("which", dt.int32)
    assert layout.count == len(layout.offsets)
    for count in (1, 2, radices[0]):
        if layout.count % count == 0 and radices[0] % count == 0:
            row, column = layout.grouped(count).moved(which)
            found = [
                (_value(row, number), _value(column, number))
                for number in range(layout.count // count)
            ]
            assert tuple(found) == layout.offsets[::count]


def test_a_layout_says_what_lanes_hold() -> None:
    """All elements of 16 rows and 16 columns, each once, and those of the transpose turned."""
    operand = MMA_F16.a
    held = {
        (lane // 4 * operand.group[0] + row, lane % 4 * operand.member[1] + column)
        for lane in range(LANES)
        for row, column in operand.offsets
    }
    assert held == {(row, column) for row in range(16) for column in range(16)}
    assert operand.turned.offsets == tuple((j, i) for i, j in operand.offsets)


def _value(x: e.Expression, which: int) -> int:
    match x:
        case e.Const(value=value):
            return int(value)
        case e.Binary(op=op):
            a, b = _value(x.x, which), _value(x.y, which)
            below = {"add": a + b, "mul": a * b}
            return (below | {"floordiv": a // (b or 1), "mod": a % (b or 1)})[op]
        case _:
            return which


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing() or "compiles")
def test_loops_cut_in_two_compile() -> None:
    sizes = sizes_of((128, 256, 64), 4)
    made = translated(in_turn, dt.float16, dt.float16, 384, HOPPER, "RR", out="R", **sizes)
    source = generate(made, HOPPER)
    assert "mbarrier.try_wait" in source.source
    compile_cuda(source, "sm_90a")


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing() or "compiles")
@pytest.mark.parametrize("layouts", ["RR", "cc"])
@pytest.mark.parametrize("case", [c for c in CASES if "OpenCL" not in c])
def test_products_compile(case: str, layouts: str) -> None:
    on, kind, items, (bm, bn, bk), stages, _ = CASES[case]
    sizes = sizes_of((bm, bn, bk), stages)
    made = translated(product, kind, kind, items, on, layouts, **sizes)
    compile_cuda(generate(made, on), "sm_90a")


def test_the_same_assembly_is_written_in_opencl() -> None:
    sizes = sizes_of((64, 64, 16), 2)
    source = generate(
        translated(product, dt.float64, dt.float64, 128, OPENCL, "RR", **sizes), OPENCL
    ).source
    assert '__asm__ volatile("mma.sync' in source
    assert "__cvta" not in source
