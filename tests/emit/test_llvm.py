"""LLVM's text: what it says, that it compiles for every processor, and that it means the same."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from portable import dtypes as dt
from portable.backend import Capabilities, Program, profiles
from portable.errors import UnsupportedError
from portable.lang.emit import generate
from portable.lang.emit.llvm.kernels import print_kernel
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, Options
from portable.lang.ir.types import Vector
from portable.lang.tiles.panels import MicroShape
from tests.support import irbuilder as ir
from tests.support.compilers import CUDA
from tests.support.llvm import NATIVE, LLVMDevice, assembly, devices, emitted

PROCESSORS = {
    "x86-64": ("x86_64-unknown-linux-gnu", "x86-64", b"\x7fELF"),
    "haswell": ("x86_64-unknown-linux-gnu", "haswell", b"\x7fELF"),
    "windows": ("x86_64-pc-windows-msvc", "x86-64", b"\x64\x86"),
    "neoverse-n1": ("aarch64-unknown-linux-gnu", "neoverse-n1", b"\x7fELF"),
    "apple-m1": ("arm64-apple-macosx13", "apple-m1", b"\xcf\xfa\xed\xfe"),
}

on_devices = pytest.mark.parametrize("runtime", devices(), ids=lambda d: d.name)


def saxpy(*, restrict: bool, workgroup: int = 256) -> Kernel:
    """``y[i] = a x[i] + y[i]``."""
    a = ir.var("a", dt.float32)
    x, y = ir.array("x", restrict=restrict), ir.array("y", restrict=restrict)
    first, second = ir.load("first", x, ir.gid()), ir.load("second", y, ir.gid())
    total = e.Binary("add", e.Binary("mul", a, first.var), second.var)
    body = [first, second, s.Store(y, (ir.gid(),), total, ir.LOC)]
    return ir.kernel([a, x, y], body, name="saxpy", workgroup=(workgroup, 1, 1))


def function_lines(program: Program) -> list[str]:
    """The lines between the braces of the program's function."""
    text = program.source.partition("define void @")[2]
    return text[text.index("{") : text.index("\n}")].splitlines()


# -- what it says -----------------------------------------------------------------------------


@pytest.mark.parametrize("capabilities", [NATIVE, CUDA], ids=["llvm", "cuda"])
def test_a_kernel_of_arrays_apart_becomes_one_of_arrays_that_overlap(
    capabilities: Capabilities,
) -> None:
    def moved(*, restrict: bool) -> Kernel:
        x, y = (
            ir.array("x", dt.int32, restrict=restrict),
            ir.array("y", dt.int32, restrict=restrict),
        )
        first = ir.load("first", x, ir.gid())
        total = e.Binary("add", first.var, e.Extent(x, 0, dt.int32))
        return ir.kernel([x, y], [first, s.Store(y, (ir.gid(),), total, ir.LOC)])

    apart, beside = (generate(moved(restrict=x), capabilities).source for x in (True, False))
    assert apart != beside
    assert generate(moved(restrict=True).overlapping(), capabilities).source == beside


def test_the_program_says_what_is_passed() -> None:
    program = generate(saxpy(restrict=True), NATIVE)
    assert program.dialect == "llvm"
    assert f"define void @{program.entry}(ptr noalias" in program.source
    assert [argument.kind for argument in program.arguments] == ["scalar", "pointer", "pointer"]
    assert program.local_bytes == 0
    assert "target" not in program.source


def test_arguments_of_a_parameter_stand_together() -> None:
    """Reports of checked kernels are passed last, whatever the text asks for first."""
    x, y = ir.array("x", strides=("any",)), ir.array("y", strides=("any",))
    value = ir.load("value", x, ir.const(3))
    body = [s.Store(y, (e.Extent(y, 0, dt.int32),), ir.const(1.0, dt.float32), ir.LOC), value]
    body.append(s.Store(y, (ir.gid(),), value.var, ir.LOC))
    program = generate(ir.kernel([x, y], body), NATIVE)
    found = [(argument.parameter, argument.kind) for argument in program.arguments]
    assert found == [
        (0, "pointer"), (0, "stride"), (1, "pointer"), (1, "extent"), (1, "stride"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        (Options(contract=False), ""),
        (Options(), "contract "),
        (Options(fastmath=True), "afn arcp contract nsz reassoc "),
    ],
    ids=["plain", "contract", "fast"],
)
def test_floats_are_rounded_as_the_kernel_says(options: Options, flags: str) -> None:
    source = generate(replace(saxpy(restrict=True), options=options), NATIVE).source
    assert f"fmul {flags}float" in source
    assert f"fadd {flags}float" in source
    assert not re.search(r"\b(nnan|ninf|fast)\b", source)


def test_restricted_arrays_are_told_to_be_apart() -> None:
    assert "!noalias" in generate(saxpy(restrict=True), NATIVE).source
    assert "!noalias" not in generate(saxpy(restrict=False), NATIVE).source


def test_rounds_of_work_items_are_told_to_be_apart() -> None:
    many = generate(saxpy(restrict=False), NATIVE).source
    assert many.count("!llvm.access.group") == 3
    assert "llvm.loop.parallel_accesses" in many
    alone = generate(saxpy(restrict=False, workgroup=1), NATIVE).source
    assert "!llvm.access.group" not in alone


@pytest.mark.parametrize("terms", [10, 200])
def test_rounds_of_large_loops_are_not_interleaved(terms: int) -> None:
    """LLVM 22 takes minutes to hours to find out what several rounds of some have in common."""
    x, i = ir.array("x"), ir.var("i")
    values = [ir.load(f"v{n}", x, e.Binary("add", i, ir.const(n))) for n in range(terms)]
    stored = [s.Store(x, (i,), value.var, ir.LOC) for value in values]
    loop = s.For(i, ir.const(0), ir.const(100), ir.const(1), (*values, *stored), ir.LOC)
    program = generate(ir.kernel([x], [loop], workgroup=(1, 1, 1)), NATIVE)
    assert ("llvm.loop.interleave.count" in program.source) == (terms == 200)


@pytest.mark.parametrize(
    ("unroll", "hint"), [(0, "disable"), (-1, "full"), (4, "count"), (s.FEW, "disable")]
)
def test_loops_around_others_are_repeated_where_kernels_ask_for_it(unroll: int, hint: str) -> None:
    x, i, j = ir.array("x"), ir.var("i"), ir.var("j")
    value = ir.load("value", x, e.Binary("add", i, j))
    stored = [s.Store(x, (e.Binary("mul", i, ir.const(n)),), value.var, ir.LOC) for n in range(20)]
    bounds = (ir.const(0), ir.const(4), ir.const(1))
    inner = s.For(j, *bounds, (value, *stored), ir.LOC)
    outer = s.For(i, *bounds, (inner,), ir.LOC, unroll=unroll)
    program = generate(ir.kernel([x], [outer], workgroup=(1, 1, 1)), NATIVE)
    assert re.findall(r"llvm.loop.unroll.(\w+)", program.source) == [hint]
    assert ("llvm.loop.vectorize.enable" in program.source) == (unroll == s.FEW)


def test_a_round_that_works_in_memory_of_its_own_is_not_apart() -> None:
    """All rounds have the same private array, so that none may run beside another."""
    stage = ir.private("stage", dt.float32, (40,))
    x = ir.array("x")
    value = ir.load("value", x, ir.gid())
    again = ir.load("again", stage, e.Binary("and", ir.gid(), ir.const(31)))
    body = [
        value,
        s.Store(stage, (e.Binary("and", ir.gid(), ir.const(31)),), value.var, ir.LOC),
        again,
        s.Store(x, (ir.gid(),), again.var, ir.LOC),
    ]
    kernel = ir.kernel([x], body, arrays=[stage], workgroup=(64, 1, 1))
    lines = function_lines(generate(kernel, NATIVE))
    plain = [line for line in lines if "align 4" in line and "access.group" not in line]
    assert len(plain) == 2


def test_long_private_arrays_are_kept_in_the_room() -> None:
    arrays = [ir.private("short", dt.float32, (64,)), ir.private("long", dt.float64, (5000,))]
    x = ir.array("x", dt.float64)
    body: list[s.Statement] = [
        s.Store(array, (ir.gid(),), ir.const(1.0, array.dtype), ir.LOC) for array in arrays
    ]
    value = ir.load("value", arrays[1], ir.gid())
    kernel = ir.kernel(
        [x], [*body, value, s.Store(x, (ir.gid(),), value.var, ir.LOC)], arrays=arrays
    )
    program = generate(kernel, NATIVE)
    assert (program.local_bytes, program.shared_bytes) == (40000, 0)
    assert "alloca [64 x float]" in program.source


def test_what_has_no_lowering_is_refused_by_name() -> None:
    kernel = ir.kernel([], [s.Instruction("mma unheard of", ir.LOC)])
    with pytest.raises(UnsupportedError, match="mma unheard of has no lowering for llvm"):
        generate(kernel, NATIVE)


# -- other processors -------------------------------------------------------------------------


def every_kind_of_statement() -> Kernel:
    """Halves, masks, atomics, a loop, a choice and a branch, of whole workgroups."""
    x, y, n = ir.array("x", dt.float16), ir.array("y"), ir.array("n", dt.int32)
    kind, at = Vector(dt.float32, 8), ir.mul(ir.gid(), 8)
    value = ir.load("value", x, at, kind=kind)
    mask = e.Compare("gt", value.var, e.Splat(ir.const(0.5, dt.float32), kind))
    front = s.Let(ir.var("front", kind), e.Compress(value.var, mask), ir.LOC)
    i, total = ir.var("i"), ir.var("total", dt.float32)
    each = s.Assign(total, e.Binary("add", total, e.Lane(front.var, 3)), ir.LOC)
    loop = s.For(i, ir.const(0), ir.gid(), ir.const(1), (each,), ir.LOC)
    count = s.Atomic(
        None, "add", n, (ir.const(0),), e.Count(mask), None, "acq_rel", "device", ir.LOC
    )
    fraction = e.Cast(e.Call("sqrt", (total,), dt.float32), dt.int64)
    branch = s.If(e.Compare("gt", fraction, ir.const(3, dt.int64)), (count,), (), ir.LOC)
    body = [value, front, s.Assign(total, ir.const(0.0, dt.float32), ir.LOC), loop, branch]
    body.append(s.Store(y, (at,), front.value, ir.LOC))
    return ir.kernel([x, y, n], body, variables=[total], workgroup=(32, 1, 1))


@pytest.mark.parametrize("name", PROCESSORS)
def test_it_compiles_for(name: str) -> None:
    triple, cpu, magic = PROCESSORS[name]
    image = emitted(generate(every_kind_of_statement(), NATIVE), triple, cpu)
    assert image.startswith(magic)


# -- what it means ----------------------------------------------------------------------------


@on_devices
@pytest.mark.parametrize("restrict", [True, False])
def test_saxpy(runtime: LLVMDevice, restrict: bool) -> None:
    program = generate(saxpy(restrict=restrict), NATIVE)
    x, y = np.arange(1024, dtype=np.float32), np.ones(1024, np.float32)
    found = runtime.run(program, (4,), [2.0, x, y])[2]
    np.testing.assert_array_equal(found, 2 * x + 1)


@on_devices
def test_workgroups_of_three_dimensions(runtime: LLVMDevice) -> None:
    out = ir.array("out", dt.int32, ("any", "any", "unit"))
    words = [e.WorkItem("group_id", dim, dt.int32) for dim in range(3)]
    number = ir.add(ir.add(words[0], ir.mul(words[1], 10)), ir.mul(words[2], 100))
    at = tuple(ir.gid(dim) for dim in (2, 1, 0))
    kernel = ir.kernel([out], [s.Store(out, at, number, ir.LOC)], workgroup=(4, 2, 1))
    found = runtime.run(generate(kernel, NATIVE), (3, 2, 5), [np.zeros((5, 4, 12), "i4")])[0]
    z, y, x = np.indices((5, 4, 12))
    np.testing.assert_array_equal(found, x // 4 + y // 2 * 10 + z * 100)


@on_devices
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("dtype", [dt.bool_, dt.int32, dt.float32, dt.int64, dt.float64], ids=repr)
def test_masks(runtime: LLVMDevice, dtype: dt.DType, lanes: int) -> None:
    """LLVM's own function ends the process over two floats, and over 32 integers."""
    x, y = ir.array("x", dtype), ir.array("y", dtype)
    held, count = ir.array("held", dt.bool_), ir.array("count", dt.int32)
    value = ir.load("value", x, ir.const(0), kind=Vector(dtype, lanes))
    mask = ir.load("mask", held, ir.const(0), kind=Vector(dt.bool_, lanes))
    body = [
        value,
        mask,
        s.Store(y, (ir.const(0),), e.Compress(value.var, mask.var), ir.LOC),
        s.Store(count, (ir.const(0),), e.Count(mask.var), ir.LOC),
    ]
    program = generate(ir.kernel([x, held, y, count], body), NATIVE)
    values = (np.arange(lanes) + 1).astype(dtype.numpy)
    chosen = np.random.default_rng(lanes).random(lanes) < 0.6
    zeros = np.zeros(1, np.int32)
    found = runtime.run(program, (1,), [values, chosen, np.zeros_like(values), zeros])
    expected = np.zeros_like(values)
    expected[: chosen.sum()] = values[chosen]
    np.testing.assert_array_equal(found[2], expected)
    assert found[3][0] == chosen.sum()


@on_devices
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("source", [dt.float32, dt.float64], ids=repr)
def test_numbers_become_halves_in_one_rounding(
    runtime: LLVMDevice, source: dt.DType, lanes: int
) -> None:
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].astype(np.float64)
    middles = (halves + np.roll(halves, 1)) / 2
    with np.errstate(all="ignore"):
        near = [middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf)]
        special = [np.inf, -np.inf, np.nan, 65519.99, 65520, 1e30, -1e300, 1e-30, -0.0]
        values = np.concatenate([halves, *near, special]).astype(source.numpy)
        values = values[: values.size // 4 * 4]
        expected = values.astype(np.float16)
    x, y = ir.array("x", source), ir.array("y", dt.float16)
    at, kind = ir.mul(ir.gid(), lanes), source if lanes == 1 else Vector(source, lanes)
    value = ir.load("value", x, at, kind=kind)
    kernel = ir.kernel([x, y], [value, s.Store(y, (at,), value.var, ir.LOC)])
    given = [values, np.zeros_like(expected)]
    found = runtime.run(generate(kernel, NATIVE), (values.size // lanes,), given)[1]
    np.testing.assert_array_equal(found, expected)


@on_devices
@pytest.mark.parametrize("component", [0, 1])
@pytest.mark.parametrize("stride", [1, 2, -1])
def test_components_of_complex_neighbours(runtime: LLVMDevice, component: int, stride: int) -> None:
    x = ir.array("x", dt.complex64, ("unit" if stride == 1 else "any",))
    y = ir.array("y")
    kind = Vector(dt.float32, 4)
    value = s.Load(ir.var("value", kind), x, (ir.const(1),), ir.LOC, component=component)
    kernel = ir.kernel([x, y], [value, s.Store(y, (ir.const(0),), value.var, ir.LOC)])
    numbers = np.arange(16, dtype=np.float32).view(np.complex64)
    given = np.repeat(numbers, 2)[::stride] if stride == 2 else numbers[::stride]
    shown = np.lib.stride_tricks.as_strided(given, (given.size,), given.strides)
    program = generate(kernel, NATIVE)
    out = np.zeros(4, np.float32)
    runtime.launch(program, (1,), [shown, out])
    part = given.imag if component else given.real
    np.testing.assert_array_equal(out, part[1:5])


@on_devices
def test_streaming_stores_at_any_place(runtime: LLVMDevice) -> None:
    y, kind = ir.array("y"), Vector(dt.float32, 16)
    store = s.Store(
        y, (ir.mul(ir.gid(), 16),), e.Splat(ir.const(3.0, dt.float32), kind), ir.LOC, streaming=True
    )
    program = generate(ir.kernel([y], [store]), NATIVE)
    assert "!nontemporal" in program.source
    assert "fence seq_cst" in program.source
    memory = np.zeros(200, np.float32)
    first = (-memory.ctypes.data % 64) // 4
    for offset in (0, 1):
        out = memory[first + offset :][:160]
        out[:] = 0
        runtime.launch(program, (10,), [out])
        np.testing.assert_array_equal(out, np.full(160, 3, np.float32))


@on_devices
def test_lines_are_printed_as_a_whole(runtime: LLVMDevice) -> None:
    pieces = ('100% "', ir.gid(), " ", ir.const(0.5, dt.float32), " ", ir.const(True, dt.bool_))
    program = generate(ir.kernel([], [s.Print(pieces, ir.LOC)]), NATIVE)
    runtime.printed.clear()
    runtime.run(program, (2,), [])
    assert runtime.printed == ['100% "0 0.5 1\n', '100% "1 0.5 1\n']


@on_devices
@pytest.mark.parametrize("valid", [-1, 0, 3, 4, 9])
def test_neighbours_are_copied_as_far_as_they_are_valid(runtime: LLVMDevice, valid: int) -> None:
    x, y, stage = ir.array("x"), ir.array("y"), ir.local("stage", dt.float32, (4,))
    count, zero = ir.var("count"), (ir.const(0),)
    body = [
        s.CopyVector(stage, zero, x, zero, 4, count, ir.LOC),
        s.CopyVector(y, zero, stage, zero, 4, ir.const(4), ir.LOC),
        s.CopyVector(y, (ir.const(4),), x, zero, 4, count, ir.LOC),
    ]
    program = print_kernel(ir.kernel([x, y, count], body, arrays=[stage]), NATIVE)
    values = np.arange(1, 5, dtype=np.float32)
    found = runtime.run(program, (1,), [values, np.full(8, -1, np.float32), valid])[1]
    kept = min(max(valid, 0), 4)
    expected = np.full(8, -1, np.float32)
    expected[:4] = 0
    expected[:kept] = expected[4 : 4 + kept] = values[:kept]
    np.testing.assert_array_equal(found, expected)


# -- how fast it can be -----------------------------------------------------------------------


def tile_kernel(rows: int, columns: int, lanes: int = 16) -> Kernel:
    """A lone work-item that adds up products in a private array of vectors."""
    kind = Vector(dt.float32, lanes)
    a, b, c = (ir.array(name, strides=("any", "unit"), restrict=True) for name in "abc")
    tile = ir.private("tile", dt.float32, (rows, columns), lanes=lanes)
    places = [(ir.const(i), ir.const(j)) for i in range(rows) for j in range(columns)]
    zero = e.Splat(ir.const(0.0, dt.float32), kind)
    body: list[s.Statement] = [s.Store(tile, place, zero, ir.LOC) for place in places]
    k = ir.var("k")
    each: list[s.Statement] = [ir.load(f"a{i}", a, k, ir.const(i)) for i in range(rows)]
    each += [ir.load(f"b{j}", b, k, ir.const(lanes * j), kind=kind) for j in range(columns)]
    for i, j in places:
        held = ir.load(f"t{i.value}_{j.value}", tile, i, j, kind=kind)
        left = e.Splat(ir.var(f"a{i.value}", dt.float32), kind)
        total = e.Call("fma", (left, ir.var(f"b{j.value}", kind), held.var), kind)
        each += [held, s.Store(tile, (i, j), total, ir.LOC)]
    depth = e.Extent(a, 0, dt.int32)
    body.append(s.For(k, ir.const(0), depth, ir.const(1), tuple(each), ir.LOC))
    for i, j in places:
        last = ir.load(f"c{i.value}_{j.value}", tile, i, j, kind=kind)
        body += [last, s.Store(c, (i, ir.mul(j, lanes)), last.var, ir.LOC)]
    return ir.kernel([a, b, c], body, arrays=[tile])


def test_tiles_are_kept_in_registers() -> None:
    """Private arrays of vectors at constant indices are no memory."""
    text = assembly(generate(tile_kernel(12, 2), NATIVE), "x86_64-linux-gnu", "skylake-avx512")
    assert len(re.findall(r"vfmadd\d+ps", text)) >= 24
    assert not re.search(r"zmm.*-byte (Folded )?(Spill|Reload)|\(%rsp\).*zmm|zmm.*\(%rsp\)", text)


@pytest.mark.parametrize("name", ["neoverse", "apple-m1"])
def test_tiles_for_narrow_vectors_are_kept_in_registers(name: str) -> None:
    """NEON has 32 registers of 16 bytes."""
    capabilities = profiles.load(name).capabilities
    shape = MicroShape.choose(capabilities, dt.float32, [(240, 512)], padding=True)
    assert shape == MicroShape(rows=6, vectors=4, lanes=4)
    program = generate(tile_kernel(shape.rows, shape.vectors, shape.lanes), capabilities)
    processor = {"neoverse": "neoverse-n1"}.get(name, name)
    text = assembly(program, PROCESSORS[processor][0], processor)
    assert len(re.findall(r"fmla(\.4s)?\s", text)) >= 24
    assert not re.search(r"(st|ld)[pr]\s+q\d+.*\[sp", text)


@on_devices
def test_tiles_are_right(runtime: LLVMDevice) -> None:
    random = np.random.default_rng(1)
    a, b = (random.integers(-9, 9, (40, n)).astype(np.float32) for n in (12, 32))
    program = generate(tile_kernel(12, 2), NATIVE)
    found = runtime.run(program, (1,), [a, b, np.zeros((12, 32), np.float32)])[2]
    np.testing.assert_array_equal(found, a.T @ b)


@pytest.mark.parametrize("restrict", [True, False])
def test_work_items_become_lanes(restrict: bool) -> None:
    """Neighbours work side by side, and none of it is held back by checks for overlaps."""
    program = generate(saxpy(restrict=restrict), NATIVE)
    text = assembly(program, "x86_64-linux-gnu", "skylake-avx512")
    assert re.search(r"vfmadd\d+ps.*zmm", text)
    assert not re.search(r"vfmadd\d+ss", text)


def test_the_text_is_short() -> None:
    """LLVM takes as long to read a text as it is long."""
    assert len(generate(saxpy(restrict=True), NATIVE).source) < 4000
