"""Atomics, fences, sub-groups and broadcasts: run on OpenCL devices, compiled as CUDA and HIP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portable
from portable import dtypes as dt
from portable import lang as kl
from portable.errors import UnsupportedError
from portable.lang.emit import generate
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.walks import map_block
from tests.support import irbuilder as ir
from tests.support.compilers import (
    CUDA,
    HIP,
    OpenCLDevice,
    compile_cuda,
    compile_hip_together,
    cuda_missing,
    hip_missing,
    opencl_devices,
)
from tests.support.llvm import Runtime, devices

DEVICES = [*opencl_devices(), *devices()]
TYPES = (dt.int32, dt.uint32, dt.int64, dt.uint64, dt.float32, dt.float64)
FETCH = {
    "add": np.add.reduce,
    "min": np.minimum.reduce,
    "max": np.maximum.reduce,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}
OPS = [(op, t) for op in FETCH for t in TYPES if t.is_integer or op in ("add", "min", "max")]


def atomic(op: Any, array: Any, value: e.Expression | None, **options: Any) -> s.Atomic:
    """An atomic on element 0."""
    defaults: dict[str, Any] = {
        "var": None, "index": (ir.const(0),), "expected": None, "order": "relaxed",
        "scope": "device",
        "loc": ir.LOC,
    }  # fmt: skip
    return s.Atomic(op=op, array=array, value=value, **(defaults | options))


def _start(op: str, dtype: dt.DType) -> int:
    """What leaves every operand as it is."""
    if op == "and":
        return -1 if dtype.kind == "i" else 2**dtype.bits - 1
    return 2**20 if op == "min" else 0


def fetch_kernel(op: str, dtype: dt.DType, order: str = "relaxed") -> Kernel:
    """Every work-item combines its value into ``out[0]``, through local memory's element 0 too."""
    x, out = ir.array("x", dtype), ir.array("out", dtype)
    shared = ir.local("shared", dtype, (1,))
    value = ir.load("value", x, ir.gid())
    first = e.Compare("eq", ir.lid(), ir.const(0))
    start = e.Const(_start(op, dtype), dtype)
    body = [
        value,
        s.If(first, (s.Store(shared, (ir.const(0),), start, ir.LOC),), (), ir.LOC),
        s.Barrier(ir.LOC),
        atomic(op, shared, value.var, scope="workgroup"),
        s.Barrier(ir.LOC),
        s.If(first, (
            ir.load("part", shared, ir.const(0)),
            atomic(op, out, ir.var("part", dtype), order=order, var=ir.var("before", dtype)),
        ), (), ir.LOC),
    ]  # fmt: skip
    return ir.kernel([x, out], body, arrays=[shared], workgroup=(16, 1, 1))


@pytest.mark.parametrize("runtime", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize(("op", "dtype"), OPS, ids=str)
def test_fetch(op: str, dtype: dt.DType, runtime: Runtime) -> None:
    start = _start(op, dtype)
    values = np.random.default_rng(3).integers(1, 1000, 64).astype(dtype.numpy)
    out = np.array([start], dtype.numpy)
    kernel = fetch_kernel(op, dtype, "acq_rel")
    found = runtime.run(generate(kernel, runtime.capabilities), (4,), [values, out])[1]
    assert found is not None
    assert found[0] == FETCH[op](values)


def mixed_kernel(dtype: dt.DType) -> Kernel:
    """A count kept by compare-and-exchange, loads, stores and exchanges."""
    out = ir.array("out", dtype)
    seen, before = ir.var("seen", dtype), ir.var("before", dtype)
    more = e.Binary("add", seen, e.Const(1, dtype))
    loop = s.Loop(
        (
            atomic("load", out, None, var=seen, order="acquire"),
            atomic("compare_exchange", out, more, expected=seen, var=before, order="acq_rel"),
            s.If(e.Compare("eq", before, seen), (s.Break(ir.LOC),), (), ir.LOC),
        ),
        ir.LOC,
    )
    two = (ir.const(1),)
    body = [
        loop,
        s.Fence("release", "device", ir.LOC),
        atomic("store", out, e.Const(7, dtype), index=two, order="release"),
        atomic("exchange", out, e.Const(9, dtype), index=(ir.const(2),), var=ir.var("old", dtype)),
        atomic("sub", out, e.Const(1, dtype), index=(ir.const(3),)),
    ]
    return ir.kernel([out], body, workgroup=(8, 1, 1))


@pytest.mark.parametrize("runtime", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_exchanges(dtype: dt.DType, runtime: Runtime) -> None:
    out = np.array([0, 0, 0, 100], dtype.numpy)
    program = generate(mixed_kernel(dtype), runtime.capabilities)
    found = runtime.run(program, (5,), [out])[0]
    assert np.array_equal(found, [40, 7, 9, 60])


@pytest.mark.parametrize("runtime", opencl_devices(), ids=lambda d: d.name)
def test_first_generation_is_relaxed_only(runtime: OpenCLDevice) -> None:
    old = replace(runtime.capabilities, memory_orders="relaxed")
    values = np.arange(1, 65, dtype=np.int32)
    for op, dtype in (("add", dt.int32), ("max", dt.float32), ("add", dt.uint64)):
        program = generate(fetch_kernel(op, dtype), old)
        assert "explicit" not in program.source
        found = runtime.run(program, (4,), [values.astype(dtype.numpy), np.zeros(1, dtype.numpy)])
        assert found[1] is not None
        assert found[1][0] == FETCH[op](values)
    with pytest.raises(UnsupportedError, match="only relaxed"):
        generate(fetch_kernel("add", dt.int32, "release"), old)


def test_64_bits_need_the_device() -> None:
    with pytest.raises(UnsupportedError, match="64-bit"):
        generate(fetch_kernel("add", dt.int64), replace(CUDA, atomics64=False))


def test_nvidias_opencl_has_the_orders_of_its_assembler() -> None:
    nvidia = replace(CUDA, dialect="opencl", float_atomics=True)
    source = generate(mixed_kernel(dt.float32), nvidia).source
    assert "ld.acquire.gpu.global.b32" in source
    assert "fence.acq_rel.gpu" in source
    source = generate(fetch_kernel("add", dt.float32, "acq_rel"), nvidia).source
    assert "atom.acq_rel.gpu.global.add.f32" in source
    assert "red.relaxed.cta.shared.add.f32" in source


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_cuda_compiles(dtype: dt.DType) -> None:
    assert ".gpu" in compile_cuda(generate(mixed_kernel(dtype), CUDA))
    for op, own in OPS:
        if own is dtype:
            compile_cuda(generate(fetch_kernel(op, dtype, "acq_rel"), CUDA))


@pytest.mark.skipif(bool(hip_missing()), reason=hip_missing())
def test_hip_compiles() -> None:
    kernels = [mixed_kernel(dtype) for dtype in TYPES]
    kernels += [fetch_kernel("min", dtype, "acq_rel") for dtype in TYPES]
    compile_hip_together([generate(kernel, HIP) for kernel in kernels])


# -- sub-groups -------------------------------------------------------------------------------

SHUFFLES = {
    "shuffle": lambda own: (own * 7 + 3) % 24,
    "shuffle_xor": lambda own: own ^ 5,
    "shuffle_up": lambda own: own - 3,
    "shuffle_down": lambda own: own + 3,
    "broadcast": lambda own: own * 0 + 2,
}
REDUCES = ("add", "min", "max", "and", "or", "xor")


def sub_group_kernel(
    op: str, dtype: dt.DType, size: int, workgroup: tuple[int, int, int]
) -> Kernel:
    """``out[i]`` is the result of each work-item in linear order."""
    x, out = ir.array("x", dtype), ir.array("out", dtype)
    lane = e.WorkItem("sub_group_local_id", 0, dt.int32)
    argument: e.Expression | None = {
        "shuffle": ir.binary("mod", ir.add(ir.mul(lane, 7), 3), 24),
        "shuffle_xor": ir.const(5),
        "shuffle_up": ir.const(3),
        "shuffle_down": ir.const(3),
        "broadcast": ir.const(2),
    }.get(op)
    at = ir.add(ir.lid(0), ir.mul(ir.lid(1), workgroup[0]))
    value = ir.load("value", x, at)
    result = ir.var("result", dtype)
    body = [
        value,
        s.SubGroup(result, op, value.var, argument, ir.LOC),  # type: ignore[arg-type]
        s.Store(out, (at,), result, ir.LOC),
    ]
    return ir.kernel([x, out], body, workgroup=workgroup, sub_group_size=size)


def sub_group_reference(op: str, x: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    """What each work-item gets."""
    out = x.copy()
    for start in range(0, len(x), size):
        part = x[start : start + size]
        own = np.arange(len(part))
        if op in SHUFFLES:
            source = SHUFFLES[op](own)
            inside = (source >= 0) & (source < len(part))
            out[start : start + size] = part[np.where(inside, source, own)]
        elif op == "scan_add":
            out[start : start + size] = np.cumsum(part)
        elif op in ("any", "all"):
            out[start : start + size] = getattr(np, op)(part)
        else:
            out[start : start + size] = FETCH[op.removeprefix("reduce_")](part)
    return out


SUB_GROUP_OPS = [*SHUFFLES, *(f"reduce_{op}" for op in REDUCES), "scan_add"]


@pytest.mark.parametrize("runtime", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize("workgroup", [(32, 1, 1), (40, 1, 1), (8, 4, 1), (6, 5, 1)], ids=str)
@pytest.mark.parametrize("op", [*SUB_GROUP_OPS, "any", "all"])
def test_sub_groups(op: str, workgroup: tuple[int, int, int], runtime: Runtime) -> None:
    size = runtime.capabilities.sub_group_size
    dtype = dt.bool_ if op in ("any", "all") else dt.int32
    items = workgroup[0] * workgroup[1]
    x = np.random.default_rng(5).integers(0, 2 if dtype is dt.bool_ else 100, items)
    x = x.astype(dtype.numpy)
    program = generate(sub_group_kernel(op, dtype, size, workgroup), runtime.capabilities)
    found = runtime.run(program, (1,), [x, np.zeros_like(x)])[1]
    assert np.array_equal(found, sub_group_reference(op, x, size)), program.source


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
@pytest.mark.parametrize("op", [*SUB_GROUP_OPS, "any", "all"])
def test_cuda_sub_groups_compile(op: str) -> None:
    for dtype in (dt.bool_,) if op in ("any", "all") else (dt.int32, dt.uint64):
        for workgroup in ((64, 1, 1), (6, 7, 1)):
            compile_cuda(generate(sub_group_kernel(op, dtype, 32, workgroup), CUDA))


@pytest.mark.skipif(bool(hip_missing()), reason=hip_missing())
def test_hip_sub_groups_compile() -> None:
    kernels = [
        sub_group_kernel(op, dt.bool_ if op == "all" else dt.float64, 64, (96, 1, 1))
        for op in ("shuffle_up", "reduce_add", "scan_add", "all")
    ]
    compile_hip_together([generate(kernel, HIP) for kernel in kernels])


@pytest.mark.parametrize("runtime", DEVICES, ids=lambda d: d.name)
def test_workgroup_uniform(runtime: Runtime) -> None:
    out = ir.array("out", dt.float64)
    flag, number = ir.var("flag", dt.bool_), ir.var("number", dt.float64)
    own = e.Cast(ir.gid(), dt.float64)
    body = [
        s.WorkgroupUniform(flag, e.Compare("eq", ir.lid(), ir.const(0)), ir.LOC),
        s.WorkgroupUniform(number, own, ir.LOC),
        s.If(flag, (s.Store(out, (ir.gid(),), number, ir.LOC),), (), ir.LOC),
    ]
    kernel = ir.kernel([out], body, workgroup=(8, 1, 1))
    found = runtime.run(generate(kernel, runtime.capabilities), (3,), [np.zeros(24)])[0]
    assert np.array_equal(found, np.repeat([0.0, 8.0, 16.0], 8))


@portable.kernel
def towards(x, at, out):
    i = kl.global_id(0)
    k, v = at[i], x[i]
    kl.atomic_add(out, (k, 1), v)
    w = v * 2.0
    kl.atomic_add(out, (k, 0), w)
    kl.atomic_add(out, (k, 2), v)
    kl.atomic_add(out, (k, 3), v + w)
    kl.atomic_add(out, (k, 5), w)


def test_neighbouring_floats_are_added_to_by_one_instruction() -> None:
    x, at, out = np.ones(4, np.float32), np.zeros(4, np.int32), np.zeros((2, 6), np.float32)
    wanted = _specialised(towards, x, at, out)
    text = generate(_unused(towards.translated(wanted, CUDA)), CUDA)
    body = text.source[text.source.index("void towards") :]
    assert body.count("pt_atomic_add_4_device(") == 1
    assert body.count("_only(") == 1
    older = replace(CUDA, atomic_lanes=1)
    assert "add_4" not in generate(_unused(towards.translated(wanted, older)), older).source
    if not cuda_missing():
        made = compile_cuda(text)
        assert all(f"red.relaxed.gpu.global.add.v{n}.f32" in made for n in (2, 4))


@portable.kernel
def away(x, at, out):
    i = kl.global_id(0)
    j, v = at[i], x[i]
    for k in kl.static_range(4):
        kl.atomic_sub(out, (j, k), v + k)


def test_floats_are_taken_off_by_additions() -> None:
    """No device has an instruction that subtracts floats: it would take a loop."""
    wanted = _specialised(
        away, np.ones(4, np.float32), np.zeros(4, np.int32), np.zeros((2, 4), np.float32)
    )
    text = generate(_unused(away.translated(wanted, CUDA)), CUDA).source
    assert text[text.index("void away") :].count("pt_atomic_add_4_device(") == 1
    assert "compare_exchange" not in text


def _unused(kernel: Kernel) -> Kernel:
    """Its atomics as adjoints have them: nobody asks what was there before."""

    def change(x: s.Statement) -> s.Block:
        return (replace(x, var=None) if isinstance(x, s.Atomic) else x,)

    return replace(kernel, body=map_block(kernel.body, change))


def _specialised(function: Any, *args: Any) -> Any:
    device = portable.device("simulator")
    views = [device.view(device.from_numpy(x)) for x in args]
    return function[4].specialised(device, args, views, {})
