"""Whole kernels: loops, memory of every type, names, flags; run, and compiled for each dialect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portable
from portable import dtypes as dt
from portable.lang.emit import generate
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, Options
from portable.lang.ir.types import Vector
from tests.support import irbuilder as ir
from tests.support.compilers import (
    CUDA,
    HIP,
    compile_cuda,
    compile_hip,
    compile_hip_together,
    cuda_missing,
    hip_missing,
    opencl_devices,
)
from tests.support.llvm import Runtime, devices

DEVICES = [*opencl_devices(), *devices()]
on_devices = pytest.mark.parametrize("runtime", DEVICES, ids=lambda d: d.name)


def everywhere(kernel: Kernel) -> None:
    """Compiles a kernel as CUDA and HIP, where that can be done."""
    cuda, hip = generate(kernel, CUDA), generate(kernel, HIP)
    if not cuda_missing():
        compile_cuda(cuda)
    if not hip_missing():
        compile_hip(hip)


def loop_kernel(constant: int | None) -> Kernel:
    """Counts the rounds of a range and sums its values."""
    out, total, count = ir.array("out", dt.int32), ir.var("total"), ir.var("count")
    start, stop, step, at = (ir.var(n) for n in ("start", "stop", "step", "at"))
    body = (
        s.Assign(total, ir.add(total, at), ir.LOC),
        s.Assign(count, ir.add(count, 1), ir.LOC),
    )
    by = step if constant is None else ir.const(constant)
    statements = [
        s.Assign(total, ir.const(0), ir.LOC),
        s.Assign(count, ir.const(0), ir.LOC),
        s.For(at, start, stop, by, body, ir.LOC),
        s.Store(out, (ir.const(0),), total, ir.LOC),
        s.Store(out, (ir.const(1),), count, ir.LOC),
    ]
    return ir.kernel([out, start, stop, step], statements, variables=[total, count])


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
@pytest.mark.parametrize("name", ["norm", "sinpif", "malloc"])
def test_kernels_named_as_functions_of_cuda(name: str) -> None:
    compile_cuda(generate(replace(loop_kernel(1), name=name), CUDA))


@on_devices
@pytest.mark.parametrize("constant", [True, False])
def test_ranges(constant: bool, runtime: Runtime) -> None:
    for step in (1, 3, -1, -4):
        program = generate(loop_kernel(step if constant else None), runtime.capabilities)
        for start, stop in ((0, 10), (10, 0), (-7, 8), (5, 5), (2**31 - 5, 2**31 - 1)):
            found = runtime.run(program, (1,), [np.zeros(2, "i4"), start, stop, step])[0]
            rounds = range(start, stop, step)
            total = np.array(sum(rounds)).astype(np.int32)
            assert found.tolist() == [total, len(rounds)]


@on_devices
def test_step_of_zero_is_no_round(runtime: Runtime) -> None:
    program = generate(loop_kernel(None), runtime.capabilities)
    assert runtime.run(program, (1,), [np.ones(2, "i4"), 0, 9, 0])[0].tolist() == [0, 0]


Way = tuple[bool, str]
"""Whether strides are any, and by way of which memory."""

WAYS: list[Way] = [(stride, middle) for stride in (False, True) for middle in ("private", "local")]


def convert_kernel(source: dt.DType, lanes: int, *ways: Way) -> Kernel:
    """Copies by way of registers and a private or local array, an array in each way."""
    arrays, stages, body = [], [], []
    kind: Any = source.register if lanes == 1 else Vector(source.register, lanes)
    at = ir.mul(ir.gid(), lanes)
    for number, (stride, middle) in enumerate(ways):
        strides: Any = ("any",) if stride else ("unit",)
        x, y = (ir.array(f"{name}{number}", source, strides) for name in "xy")
        maker = ir.private if middle == "private" else ir.local
        stage = maker(f"stage{number}", source, (16,))
        first = ir.load(f"first{number}", x, at, kind=kind)
        second = ir.load(f"second{number}", stage, at, kind=kind)
        body += [
            first,
            s.Store(stage, (at,), first.var, ir.LOC),
            second,
            s.Store(y, (at,), second.var, ir.LOC),
        ]
        arrays += [x, y]
        stages.append(stage)
    return ir.kernel(arrays, body, arrays=stages)


REAL = [t for t in dt.ALL if not t.is_complex]


@on_devices
@pytest.mark.parametrize("lanes", [1, 2, 16])
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_memory(dtype: dt.DType, lanes: int, runtime: Runtime) -> None:
    kernel = convert_kernel(dtype, lanes, *WAYS)
    random = np.random.default_rng(2)
    xs = [random.integers(0, 120, 16).astype(dtype.numpy) for _ in WAYS]
    program = generate(kernel, runtime.capabilities)
    given = [array for x in xs for array in (x, np.zeros_like(x))]
    found = runtime.run(program, (16 // lanes,), given)[1::2]
    for way, x, y in zip(WAYS, xs, found, strict=True):
        assert np.array_equal(y, x), (way, program.source)


def test_memory_compiles_everywhere() -> None:
    kernels = [convert_kernel(dtype, 4, (False, "local")) for dtype in REAL]
    if not hip_missing():
        compile_hip_together([generate(kernel, HIP) for kernel in kernels])
    if not cuda_missing():
        kernels += [convert_kernel(dtype, 8, (True, "private")) for dtype in REAL]
        for kernel in kernels:
            compile_cuda(generate(kernel, CUDA))


@on_devices
def test_native_half(runtime: Runtime) -> None:
    x, y = ir.array("x", dt.float16), ir.array("y", dt.float16)
    kind = Vector(dt.float16, 4)
    value = ir.load("value", x, ir.mul(ir.gid(), 4), kind=kind)
    two = e.Splat(e.Const(1.5, dt.float16), kind)
    result = e.Binary("max", e.Binary("mul", value.var, two), two)
    body = [value, s.Store(y, (ir.mul(ir.gid(), 4),), result, ir.LOC)]
    kernel = ir.kernel([x, y], body, options=Options(native_half=True))
    everywhere(kernel)
    if runtime.capabilities.native_half:
        values = np.arange(8, dtype=np.float16)
        program = generate(kernel, runtime.capabilities)
        found = runtime.run(program, (2,), [values, np.zeros_like(values)])[1]
        assert np.array_equal(found, np.maximum(values * np.float16(1.5), np.float16(1.5)))


@on_devices
def test_names_of_the_language_are_free(runtime: Runtime) -> None:
    words = [
        "float4",
        "min",
        "pt_div_i32",
        "int",
        "get_global_id",
        "x.re",
        "local_memory",
        "kernel",
    ]
    out = ir.array("uint", dt.int32)
    body: list[s.Statement] = []
    total: e.Expression = e.Binary("min", ir.gid(), ir.const(0))
    for number, word in enumerate(words):
        body.append(s.Let(ir.var(word), ir.add(ir.gid(), number), ir.LOC))
        total = ir.add(total, ir.var(word))
    body.append(s.Store(out, (ir.const(0),), total, ir.LOC))
    kernel = ir.kernel([out], body, name="dot")
    found = runtime.run(generate(kernel, runtime.capabilities), (1,), [np.zeros(1, "i4")])[0]
    assert found[0] == sum(range(len(words)))
    everywhere(kernel)


@on_devices
def test_flags_and_print(runtime: Runtime) -> None:
    flag, out = ir.var("flag", dt.bool_), ir.array("out", dt.bool_)
    body = [
        s.If(flag, (s.Print(('100% "', ir.gid(), " ", flag), ir.LOC),), (), ir.LOC),
        s.Store(out, (ir.const(0),), e.Unary("not", flag), ir.LOC),
    ]
    kernel = ir.kernel([flag, out], body)
    everywhere(kernel)
    found = runtime.run(generate(kernel, runtime.capabilities), (1,), [False, np.zeros(1, "?")])
    assert found[1][0]


def test_source_is_the_same_every_time() -> None:
    one, two = (generate(loop_kernel(None), CUDA) for _ in range(2))
    assert one == two
    assert one.source.startswith("// example, example.py:7\n")
    assert "somewhere" not in one.source


def test_options_become_flags() -> None:
    kernel = replace(loop_kernel(1), options=Options(contract=False, fastmath=True))
    assert set(generate(kernel, CUDA).flags) >= {"--fmad=false", "--use_fast_math"}
    assert set(generate(kernel, HIP).flags) >= {"-ffp-contract=off", "-ffast-math"}


def test_intel_compiles_single_work_items_of_processors_once() -> None:
    processor, gpu = (portable.device(f"simulator:{x}").capabilities for x in ("intel-cpu", "arc"))
    lone, crowd = (replace(loop_kernel(1), workgroup=(items, 1, 1)) for items in (1, 64))
    hint = "__attribute__((intel_vec_len_hint(1)))"
    assert hint in generate(lone, processor).source
    assert hint not in generate(crowd, processor).source
    assert hint not in generate(lone, gpu).source


def test_large_local_memory_is_dynamic() -> None:
    stage = ir.local("stage", dt.float32, (16 * 1024,))
    body = [s.Store(stage, (ir.lid(),), e.Const(0.0, dt.float32), ir.LOC)]
    kernel = ir.kernel([], body, arrays=[stage], workgroup=(32, 1, 1))
    program = generate(kernel, CUDA)
    assert program.dynamic_local
    assert program.local_bytes == 64 * 1024
    if not cuda_missing():
        compile_cuda(program)


def handing_over(workgroup: int) -> Kernel:
    """The first work-item writes a number on a board, from which all read it after a barrier."""
    x, board, out = (ir.array(name, restrict=True) for name in ("x", "board", "out"))
    first = e.Compare("eq", ir.lid(), ir.const(0))
    own, found = ir.load("own", x, ir.lid()), ir.load("found", board, ir.const(0))
    body = [
        own,
        s.If(first, (s.Store(board, (ir.const(0),), own.var, ir.LOC),), (), ir.LOC),
        s.Barrier(ir.LOC),
        found,
        s.Store(out, (ir.lid(),), found.var, ir.LOC),
    ]
    return ir.kernel([x, board, out], body, workgroup=(workgroup, 1, 1))


def test_what_work_items_hand_each_other_is_no_one_s_alone() -> None:
    together, alone = (generate(handing_over(items), CUDA).source for items in (64, 1))
    assert "const float *__restrict__ x" in together
    assert together.count("__restrict__") == 1
    assert alone.count("__restrict__") == 3


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
def test_loads_stay_behind_the_barrier_before_them() -> None:
    before, after = compile_cuda(generate(handing_over(64), CUDA), optimised=True).split("bar.sync")
    assert "ld.global.f32" not in before
    assert "ld.global.f32" in after
