"""Copies of tiles and bulks, run on OpenCL devices and compiled as CUDA and HIP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable.backend import Capabilities
from portable.lang.emit import generate
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, Layout, StrideClass
from portable.lang.ir.walks import all_statements
from portable.lang.tiles.copies import lower_copies
from tests.support import irbuilder as ir
from tests.support.compilers import (
    CUDA,
    HIP,
    compile_cuda,
    compile_hip_together,
    cuda_missing,
    hip_missing,
    opencl_devices,
)
from tests.support.llvm import Runtime, devices

DEVICES = [*opencl_devices(), *devices()]
SWIZZLED = Layout((32, 1), 32 * 16, swizzle=8)
STAGGERED = Layout((1, 20), 20 * 32)

CASES: dict[str, dict[str, Any]] = {
    "rows": {},
    "wide_group": {"workgroup": (16, 4, 1)},
    "single": {"workgroup": (1, 1, 1)},
    "single_odd": {"workgroup": (1, 1, 1), "tile": (5, 39)},
    "odd_group": {"workgroup": (24, 1, 1)},
    "transposed": {"transposed": True, "tile": (8, 16)},
    "transposed_single": {"transposed": True, "workgroup": (1, 1, 1)},
    "padded": {"layout": Layout((33, 1), 33 * 16)},
    "swizzled": {"layout": SWIZZLED},
    "staggered": {"layout": STAGGERED},
    "staggered_wide_group": {"layout": STAGGERED, "workgroup": (256, 1, 1)},
    "columns": {"strides": ("unit", "any")},
    "gathered": {"strides": ("any", "any")},
    "half": {"dtype": dt.float16},
    "bytes": {"dtype": dt.uint8},
    "bool": {"dtype": dt.bool_},
    "double": {"dtype": dt.float64},
    "complex": {"dtype": dt.complex64},
    "many_rounds": {"workgroup": (2, 1, 1)},
    "wide_index": {"index_type": dt.int64},
    "aligned": {"aligned": True},
}


def copy_kernel(
    *,
    dtype: dt.DType = dt.float32,
    tile: tuple[int, int] = (16, 32),
    workgroup: tuple[int, int, int] = (32, 1, 1),
    layout: Layout | None = None,
    transposed: bool = False,
    strides: tuple[StrideClass, StrideClass] = ("any", "unit"),
    index_type: dt.DType = dt.int32,
    aligned: bool = False,
    asynchronous: bool = True,
) -> Kernel:
    """Copies tile (1, 1) and its neighbours in, then out to another array at the same place."""
    x = ir.array("x", dtype, strides, aligned=aligned)
    y = ir.array("y", dtype, strides, aligned=aligned)
    shape = tile[::-1] if transposed else tile
    stage = ir.local("stage", dtype, shape, layout)
    starts = tuple(
        e.Binary("mul", e.WorkItem("group_id", d, index_type), e.Const(tile[d], index_type))
        for d in (0, 1)
    )
    zeros = (e.Const(0, index_type),) * 2
    outer = [e.Region(a, starts, tile, transposed) for a in (x, y)]
    inner = e.Region(stage, zeros, shape)
    body = [
        s.CopyTile(inner, outer[0], ir.LOC, asynchronous),
        s.CopyCommit(ir.LOC),
        s.CopyWait(0, ir.LOC),
        s.Barrier(ir.LOC),
        s.CopyTile(outer[1], inner, ir.LOC, asynchronous),
    ]
    return ir.kernel([x, y], body, arrays=[stage], workgroup=workgroup, index_type=index_type)


def _random(dtype: dt.DType, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(1).integers(0, 2 if dtype.kind == "b" else 100, shape)
    return values.astype(dtype.numpy)


@pytest.mark.parametrize("runtime", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize("gpu", [False, True], ids=["cpu", "gpu"])
@pytest.mark.parametrize("case", CASES)
def test_tile_there_and_back(case: str, gpu: bool, runtime: Runtime) -> None:
    options = CASES[case]
    kernel = copy_kernel(**options)
    capabilities = runtime.capabilities
    if gpu and runtime.name == "pocl" and options.get("dtype") in (dt.uint8, dt.bool_):
        pytest.skip("PoCL passes 64-byte vectors wrongly, which this GPU's code holds")
    if gpu:
        capabilities = replace(
            capabilities, kind="gpu", vectorizes_work_items=False, vector_bytes=16
        )
    program = generate(kernel, capabilities)
    dtype = options.get("dtype", dt.float32)
    tile = options.get("tile", (16, 32))
    for shape in ((tile[0] * 3, tile[1] * 2), (37, 44), (3, 100)):
        order = "F" if options.get("strides") == ("unit", "any") else "C"
        x = np.asarray(_random(dtype, shape), order=order)
        y = np.zeros_like(x)
        groups = tuple(-(-n // t) for n, t in zip(shape, tile, strict=True))
        found = runtime.run(program, groups, [x, y])[1]
        assert np.array_equal(found, x), (shape, program.source)


def _words(x: s.Statement, lane: int) -> list[int]:
    """Where a work-item of the first workgroup writes to the tile, in words of 4 bytes."""
    assert isinstance(x, s.If)
    known: dict[e.Variable, int] = {}

    def value(x: e.Expression) -> int:
        match x:
            case e.Const(value=number):
                return int(number)
            case e.Binary(op=op):
                a, b = value(x.x), value(x.y)
                below = {"add": a + b, "mul": a * b}
                return (below | {"floordiv": a // (b or 1), "mod": a % (b or 1)})[op]
            case e.WorkItem(word=word):
                return lane if word == "local_id" else 0
            case _:
                assert isinstance(x, e.Variable)
                return known[x]

    found = []
    for y in x.then:
        if isinstance(y, s.Let):
            known[y.var] = value(y.value)
        elif isinstance(y, s.Store) and y.array.layout is not None:
            at = zip(y.index, y.array.layout.strides, strict=True)
            found.append(sum(value(i) * stride for i, stride in at) * y.array.dtype.itemsize // 4)
    return found


@pytest.mark.parametrize("items", [32, 128, 256])
@pytest.mark.parametrize("shape", [(64, 16), (16, 32), (128, 8)])
def test_rows_that_become_columns_are_spread_over_the_banks(
    shape: tuple[int, int], items: int
) -> None:
    line = shape[0] + 4
    kernel = copy_kernel(
        tile=shape, workgroup=(items, 1, 1), layout=Layout((1, line), line * shape[1])
    )
    lowered = lower_copies(kernel, HIP)
    (inward,) = [x for x in lowered.body if isinstance(x, s.If)][:1]
    for together in zip(*(_words(inward, lane) for lane in range(32)), strict=True):
        assert len({word % 32 for word in together}) * max(1, shape[1] // 8) == 32


@pytest.mark.parametrize("runtime", DEVICES, ids=lambda d: d.name)
def test_outside_becomes_zero(runtime: Runtime) -> None:
    x = ir.array("x", dt.float32, ("any", "unit"))
    out = ir.array("out", dt.float32, ("any", "unit"))
    stage = ir.local("stage", dt.float32, (8, 8))
    minus = (ir.const(-3), ir.const(-2))
    body = [
        s.CopyTile(e.Region(stage, (ir.const(0),) * 2, (8, 8)), e.Region(x, minus, (8, 8)), ir.LOC),
        s.CopyWait(0, ir.LOC),
        s.Barrier(ir.LOC),
    ]
    for row in range(8):
        value = ir.load(f"v{row}", stage, ir.const(row), ir.lid(0))
        body += [value, s.Store(out, (ir.const(row), ir.lid(0)), value.var, ir.LOC)]
    kernel = ir.kernel([x, out], body, arrays=[stage], workgroup=(8, 1, 1))
    source = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    found = runtime.run(
        generate(kernel, runtime.capabilities), (1,), [source, np.ones((8, 8), "f4")]
    )
    expected = np.zeros((8, 8), np.float32)
    expected[3:7, 2:6] = source
    assert np.array_equal(found[1], expected)


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
@pytest.mark.parametrize("case", CASES)
def test_tile_compiles_as_cuda(case: str) -> None:
    compile_cuda(generate(copy_kernel(**CASES[case]), CUDA))


@pytest.mark.skipif(bool(hip_missing()), reason=hip_missing())
def test_tiles_compile_as_hip() -> None:
    cases = ("rows", "half", "swizzled", "complex")
    compile_hip_together([generate(copy_kernel(**CASES[case]), HIP) for case in cases])


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
def test_aligned_tile_is_copied_in_sixteen_bytes() -> None:
    program = generate(copy_kernel(aligned=True), CUDA)
    assert "cp.async.cg.shared.global [%0], [%1], 16" in program.source
    ptx = compile_cuda(program, optimised=True)
    assert "cp.async.cg" in ptx
    assert "st.global.v4" in ptx
    assert "ld.shared.v4" in ptx


@pytest.mark.parametrize("items", [1, 32])
def test_copies_that_follow_each_other_are_asynchronous_where_work_items_share_them(
    items: int,
) -> None:
    kernel = copy_kernel(workgroup=(items, 1, 1), aligned=True)
    inward = next(x for x in kernel.body if isinstance(x, s.CopyTile))
    twice = replace(kernel, body=(inward, *kernel.body))
    lowered = all_statements(lower_copies(twice, CUDA).body)
    assert any(isinstance(x, s.CopyVector) for x in lowered) == (items > 1)


def test_copies_without_hardware_leave_no_groups() -> None:
    source = generate(copy_kernel(), HIP).source
    assert "commit" not in source
    assert "asm" not in source


def bulk_kernel(workgroup: tuple[int, int, int] = (32, 1, 1)) -> Kernel:
    """One work-item fetches a row, all double it, one stores it."""
    x, y = ir.array("x", dt.float32), ir.array("y", dt.float32)
    stage = ir.local("stage", dt.float32, (64,))
    done = ir.local("done", dt.uint64, (2,))
    zero, count = ir.const(0), ir.var("count")
    first = e.Compare("eq", ir.lid(), ir.const(0))
    fetch = s.BulkCopy(stage, (zero,), x, (zero,), count, done, ir.const(1), ir.LOC)
    at = ir.var("at")
    value = ir.load("value", stage, at)
    double = s.Store(stage, (at,), ir.add(value.var, value.var), ir.LOC)
    body = [
        s.If(first, (fetch,), (), ir.LOC),
        s.BulkWait(done, ir.const(1), zero, ir.LOC),
        s.For(at, ir.lid(), count, ir.const(workgroup[0]), (value, double), ir.LOC),
        s.Barrier(ir.LOC),
        s.If(
            first,
            (
                s.BulkCopy(y, (zero,), stage, (zero,), count, None, None, ir.LOC),
                s.CopyCommit(ir.LOC),
                s.CopyWait(0, ir.LOC),
            ),
            (),
            ir.LOC,
        ),
    ]
    return ir.kernel([x, y, count], body, arrays=[stage, done], workgroup=workgroup)


@pytest.mark.parametrize("runtime", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize("count", [0, 1, 64])
def test_bulk_by_plain_loops(count: int, runtime: Runtime) -> None:
    program = generate(bulk_kernel(), runtime.capabilities)
    x = np.arange(64, dtype=np.float32)
    found = runtime.run(program, (1,), [x, np.zeros(64, "f4"), count])[1]
    assert np.array_equal(found, np.where(np.arange(64) < count, 2 * x, 0))


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
def test_bulk_compiles_as_cuda() -> None:
    ptx = compile_cuda(generate(bulk_kernel(), CUDA), optimised=True)
    for word in (
        "cp.async.bulk.shared",
        "cp.async.bulk.global",
        "mbarrier.try_wait",
        "fence.proxy",
    ):
        assert word in ptx


def test_capabilities_decide() -> None:
    plain: Capabilities = replace(CUDA, async_copy=frozenset())
    assert "asm" not in generate(copy_kernel(), plain).source
    assert isinstance(copy_kernel().arrays[0], Array)
