"""NVIDIA's device instructions, as inline PTX: the table behind `statements.Instruction`.

To add one, put an `Asm` into `INSTRUCTIONS` under a name of your choice and make a lowering pass
emit an `Instruction` of that name. In the template ``{o0}``, ... are the
outputs (declared variables: C lvalues, ``{o0}.lane[1]`` for a lane of a vector), ``{i0}``, ... the
inputs (C expressions), ``{a0}``, ... generic pointers to the addresses' elements and ``{s0}``, ...
the same as 32-bit addresses in shared memory. PTX's own braces are doubled.
An output that is read and set takes the constraint ``"+f"``. Constants of the instruction
(shapes, numbers of groups) belong in its name, or in an input that is a `Const` with
the constraint ``"n"``. For example::

    "mma.m8n8k4.f64": Asm(
        'asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 '
        '{{%0, %1}}, {{%2}}, {{%3}}, {{%0, %1}};" '
        ': "+d"({o0}), "+d"({o1}) : "d"({i0}), "d"({i1}));'
    )

Whatever reads or writes memory is ``asm volatile`` and clobbers ``"memory"``.
"""

from __future__ import annotations

from typing import Final

from portable.lang.emit.dialect import Asm


def _numbers(first: int, count: int) -> str:
    """Operands of the assembly in braces."""
    return "{{" + ", ".join(f"%{i}" for i in range(first, first + count)) + "}}"


def _listed(constraint: str, word: str, count: int) -> str:
    return ", ".join(f'"{constraint}"({{{word}{i}}})' for i in range(count))


def _ordered(text: str, inputs: str = "") -> Asm:
    """An instruction without results, before and after which memory is as it should be."""
    return Asm(f'asm volatile("{text}" {f":: {inputs} :" if inputs else ":::"} "memory");')


def _mma(name: str, kind: str, a: int, b: int, total: int, bound: tuple[str, str]) -> Asm:
    """``accumulator += a @ b`` of a warp: so many registers, constraints of sums and operands."""
    sums = _numbers(0, total)
    operands = f"{_numbers(total, a)}, {_numbers(total + a, b)}"
    return Asm(
        f'asm volatile("mma.sync.aligned.{name}.row.col.{kind} {sums}, {operands}, {sums};" '
        f": {_listed('+' + bound[0], 'o', total)} : {_listed(bound[1], 'i', a + b)});"
    )


def _ldmatrix(count: int, suffix: str) -> Asm:
    """So many 8 x 8 matrices of halves; every group of 8 lanes gives one's rows."""
    word = f"ldmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16"
    return Asm(
        f'asm volatile("{word} {_numbers(0, count)}, [%{count}];" '
        f': {_listed("=r", "o", count)} : "r"({{s0}}) : "memory");'
    )


def _trade(distance: int) -> Asm:
    """Lanes so far apart swap: the second of two registers for the first of the other lane's.

    The input is 0 in the lower lane, which gives its second register, and 1 in the higher.
    """
    return Asm(
        'asm volatile("{{ .reg .pred p; .reg .b32 x; setp.ne.u32 p, %2, 0; selp.b32 x, %0, %1, p; '
        f"shfl.sync.bfly.b32 x, x, {distance}, 31, 0xffffffff; "
        'selp.b32 %0, x, %0, p; selp.b32 %1, %1, x, p; }}" '
        ': "+r"({o0}), "+r"({o1}) : "r"({i0}));'
    )


def _wgmma(columns: int, kind: str, anew: bool) -> Asm:
    """64 rows by so many columns by 32 bytes of a warpgroup, both operands in local memory.

    Inputs are the two matrix descriptors, and of halves whether each operand lies transposed; sums
    of floats take factors of 1 or -1 for each operand. Sums that begin `anew` are only set.
    """
    count = columns // 2
    total, name, depth, bound = _WARPGROUP_KINDS[kind]
    word = f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{total}.{name}.{name}"
    tail, inputs = f"%{count}, %{count + 1}, {0 if anew else 1}", '"l"({i0}), "l"({i1})'
    if total == "f32":
        tail += ", 1, 1"
    if depth == 16:
        tail += f", %{count + 2}, %{count + 3}"
        inputs += ', "n"({i2}), "n"({i3})'
    return Asm(
        f'asm volatile("{word} {_numbers(0, count)}, {tail};" '
        f": {_listed(bound.replace('+', '=') if anew else bound, 'o', count)} : {inputs});"
    )


_WARP: Final = {
    "mma.f16.m16n8k16": _mma("m16n8k16", "f32.f16.f16.f32", 4, 2, 4, ("f", "r")),
    "mma.bf16.m16n8k16": _mma("m16n8k16", "f32.bf16.bf16.f32", 4, 2, 4, ("f", "r")),
    "mma.tf32.m16n8k8": _mma("m16n8k8", "f32.tf32.tf32.f32", 4, 2, 4, ("f", "r")),
    "split.tf32": Asm(
        'asm("{{ .reg .b32 x; .reg .f32 h; mov.b32 x, %2; add.u32 x, x, 0x1000; '
        'and.b32 %0, x, 0xffffe000; mov.b32 h, %0; sub.f32 h, %2, h; mov.b32 %1, h; }}" '
        ': "=&r"({o0}), "=r"({o1}) : "f"({i0}));'
    ),
    "mma.f64.m16n8k4": _mma("m16n8k4", "f64.f64.f64.f64", 2, 1, 4, ("d", "d")),
    "mma.f64.m16n8k8": _mma("m16n8k8", "f64.f64.f64.f64", 4, 2, 4, ("d", "d")),
    "mma.f64.m8n8k4": _mma("m8n8k4", "f64.f64.f64.f64", 1, 1, 2, ("d", "d")),
    "pack.f16": Asm('asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"({o0}) : "f"({i1}), "f"({i0}));'),
    "pack.bf16": Asm('asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"({o0}) : "f"({i1}), "f"({i0}));'),
    "trade.1": _trade(1),
    "trade.2": _trade(2),
    "store.v4.b32": _ordered(
        "st.global.v4.b32 [%0], {{%1, %2, %3, %4}};",
        '"l"({a0}), "r"({i0}), "r"({i1}), "r"({i2}), "r"({i3})',
    ),
} | {
    f"ldmatrix.x{count}{suffix}": _ldmatrix(count, suffix)
    for count in (2, 4)
    for suffix in ("", ".trans")
}

_WARPGROUP_KINDS: Final = {
    "tf32": ("f32", "tf32", 8, "+f"),
    "f16": ("f32", "f16", 16, "+f"),
    "bf16": ("f32", "bf16", 16, "+f"),
    "f8e4m3": ("f32", "e4m3", 32, "+f"),
    "f8e5m2": ("f32", "e5m2", 32, "+f"),
    "i8": ("s32", "s8", 32, "+r"),
}
"""Of operands: what they are summed in, PTX's name, the depth, and the constraint of sums."""

_WARPGROUP: Final = {
    "wgmma.descriptor": Asm("{o0} = (unsigned long long)(({s0} & 0x3ffffu) >> 4) | {i0};"),
    "wgmma.fence": Asm('asm volatile("wgmma.fence.sync.aligned;" ::: "memory");'),
    "wgmma.wait": Asm('asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");'),
    "wgmma.wait.1": Asm('asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");'),
    "wgmma.commit": Asm('asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");'),
    "set.f32": Asm('asm volatile("mov.f32 %0, 0f00000000;" : "=f"({o0}));'),
    "changed.f32": Asm('asm volatile("" : "+f"({o0}) :: "memory");'),
    "set.i32": Asm('asm volatile("mov.b32 %0, 0;" : "=r"({o0}));'),
    "changed.i32": Asm('asm volatile("" : "+r"({o0}) :: "memory");'),
} | {
    f"wgmma.{kind}.m64n{columns}k{_WARPGROUP_KINDS[kind][2]}{'.anew' * anew}": _wgmma(
        columns, kind, anew
    )
    for kind in _WARPGROUP_KINDS
    for columns in range(32, 257, 32)
    for anew in (False, True)
}

MATRIX_INSTRUCTIONS: Final[dict[str, Asm]] = _WARP | _WARPGROUP


PTX_CLOCK: Final = """\
{function} {u64} pt_clock()
{{
    {u64} now;
    {asm}("mov.u64 %0, %%clock64;" : "=l"(now) :: "memory");
    return now;
}}"""
"""Counts cycles: see `Dialect.clock`."""

_COPIES: Final = {
    f"cp.async.{size}": Asm(
        f'asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size}, %2;" '
        ':: "r"({s0}), "l"({a1}), "r"((int)({i0})) : "memory");'
    )
    for size, cache in ((4, "ca"), (8, "ca"), (16, "cg"))
} | {
    "cp.async.commit": Asm('asm volatile("cp.async.commit_group;" ::: "memory");'),
    "cp.async.wait": _ordered("cp.async.wait_group %0;", '"n"({i0})'),
}

_BARRIERS: Final = {
    "barrier.first": _ordered("bar.sync 1, %0;", '"n"({i0})'),
    "mbarrier.init": _ordered("mbarrier.init.shared::cta.b64 [%0], 1;", '"r"({s0})'),
    "mbarrier.init.many": _ordered(
        "mbarrier.init.shared::cta.b64 [%0], %1;", '"r"({s0}), "r"((unsigned int)({i0}))'
    ),
    "mbarrier.init_fence": Asm(
        'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");\n'
        'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
    ),
    "pause": Asm('asm volatile("nanosleep.u32 %0;" :: "n"({i0}));'),
    "registers.more": Asm('asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"({i0}));'),
    "registers.fewer": Asm('asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"({i0}));'),
    "mbarrier.expect_tx": _ordered(
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;",
        '"r"({s0}), "r"((unsigned int)({i0}))',
    ),
    "mbarrier.arrive.expecting": _ordered(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
        '"r"({s0}), "r"((unsigned int)({i0}))',
    ),
    "mbarrier.arrive": _ordered("mbarrier.arrive.shared::cta.b64 _, [%0];", '"r"({s0})'),
    "mbarrier.arrive.copied": _ordered(
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];", '"r"({s0})'
    ),
    "mbarrier.wait": Asm(
        "for (unsigned int pt_done = 0; !pt_done;) {{\n"
        '    asm volatile("{{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; '
        'selp.u32 %0, 1, 0, p; }}"\n'
        '        : "=r"(pt_done) : "r"({s0}), "r"((unsigned int)({i0})) : "memory");\n'
        "}}"
    ),
}

_BULK: Final = {
    "bulk.fits": Asm(
        "{o0} = (((unsigned long long)({a0}) | (unsigned long long)({a1}) | "
        "(unsigned long long)({i0})) & 15) == 0;"
    ),
    "bulk.load": Asm(
        'asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes '
        '[%0], [%1], %2, [%3];"\n'
        '    :: "r"({s0}), "l"({a1}), "r"((unsigned int)({i0})), "r"({s2}) : "memory");'
    ),
    "bulk.store": Asm(
        'asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"\n'
        '    :: "l"({a0}), "r"({s1}), "r"((unsigned int)({i0})) : "memory");'
    ),
    "bulk.commit": Asm('asm volatile("cp.async.bulk.commit_group;" ::: "memory");'),
    "bulk.wait": _ordered("cp.async.bulk.wait_group %0;", '"n"({i0})'),
    "proxy.fence.all": Asm(
        'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n'
        'asm volatile("fence.proxy.async.global;" ::: "memory");'
    ),
    "proxy.fence": Asm('asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'),
}

_BOXES: Final = "struct alignas(64) pt_boxes {\n    unsigned long long words[16];\n};"
"""What NVIDIA calls a tensor map; opaque."""


def _tensor(dims: int) -> Asm:
    """A box of an array of so many dimensions; inputs are the coordinates of its first element."""
    at = ", ".join(f"%{2 + i}" for i in range(dims))
    inputs = ", ".join(f'"r"({{i{i}}})' for i in range(dims))
    return Asm(
        f'asm volatile("cp.async.bulk.tensor.{dims}d.shared::cluster.global.mbarrier::complete_tx'
        f'::bytes [%0], [%1, {{{{{at}}}}}], [%{2 + dims}];"\n'
        f'    :: "r"({{s0}}), "l"({{b0}}), {inputs}, "r"({{s1}}) : "memory");',
        (_BOXES,),
    )


_TENSOR: Final = {f"tensor.load.{dims}": _tensor(dims) for dims in range(1, 6)}

INSTRUCTIONS: Final[dict[str, Asm]] = _COPIES | _BARRIERS | _BULK | _TENSOR | MATRIX_INSTRUCTIONS
