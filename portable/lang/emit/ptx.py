"""NVIDIA's device instructions, as inline PTX: the table behind `statements.Instruction`.

To add one, put an `Asm` into `INSTRUCTIONS` under a name of your choice and make a lowering pass
emit ``Instruction(name, outputs, inputs, addresses, loc)``. In the template ``{o0}``, ... are the
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
from portable.lang.emit.ptx_matrix import MATRIX_INSTRUCTIONS

__all__ = ["INSTRUCTIONS", "PTX_CLOCK"]

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
    "cp.async.wait": Asm('asm volatile("cp.async.wait_group %0;" :: "n"({i0}) : "memory");'),
}

_BARRIERS: Final = {
    "barrier.first": Asm('asm volatile("bar.sync 1, %0;" :: "n"({i0}) : "memory");'),
    "mbarrier.init": Asm(
        'asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"({s0}) : "memory");'
    ),
    "mbarrier.init.many": Asm(
        'asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" '
        ':: "r"({s0}), "r"((unsigned int)({i0})) : "memory");'
    ),
    "mbarrier.init_fence": Asm(
        'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");\n'
        'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
    ),
    "registers.more": Asm('asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"({i0}));'),
    "registers.fewer": Asm('asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"({i0}));'),
    "mbarrier.expect_tx": Asm(
        'asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" '
        ':: "r"({s0}), "r"((unsigned int)({i0})) : "memory");'
    ),
    "mbarrier.arrive.expecting": Asm(
        'asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" '
        ':: "r"({s0}), "r"((unsigned int)({i0})) : "memory");'
    ),
    "mbarrier.arrive": Asm(
        'asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"({s0}) : "memory");'
    ),
    "mbarrier.arrive.copied": Asm(
        'asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" '
        ':: "r"({s0}) : "memory");'
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
    "bulk.wait": Asm('asm volatile("cp.async.bulk.wait_group %0;" :: "n"({i0}) : "memory");'),
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
