"""The spellings of HIP C++, for hipcc and hiprtc: CUDA's, but for what is listed here."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from portable.backend import Capabilities
from portable.lang.emit.cuda import CUDA, HALF_CASTS
from portable.lang.emit.dialect import AtomicWords
from portable.lang.ir.kernel import Kernel, Options
from portable.lang.passes.semantics import Semantics

_CLOCK: Final = """\
{function} {u64} pt_clock()
{{
    return __builtin_readcyclecounter();
}}"""


def _preludes(kernel: Kernel, capabilities: Capabilities, features: frozenset[str]) -> list[str]:
    if "half" not in features:
        return []
    return ["#ifndef __HIPCC_RTC__", "#include <hip/hip_fp16.h>", "#endif"]


def _flags(options: Options, capabilities: Capabilities) -> tuple[str, ...]:
    contract = "fast" if options.contract else "off"
    flags = ["-std=c++17", "-fno-strict-aliasing", f"-ffp-contract={contract}"]
    if options.fastmath:
        flags.append("-ffast-math")
    return tuple(flags)


HIP: Final = replace(
    CUDA,
    name="hip",
    casts=HALF_CASTS,
    semantics=Semantics(),
    preludes=_preludes,
    flags=_flags,
    sub_groups={"shuffle": "__shfl({0}, (int)({1}), {size})"},
    atomics=AtomicWords(
        style="clang",
        orders={
            name: f"__ATOMIC_{name.upper()}"
            for name in ("relaxed", "acquire", "release", "acq_rel")
        },
        scopes={"workgroup": "__HIP_MEMORY_SCOPE_WORKGROUP", "device": "__HIP_MEMORY_SCOPE_AGENT"},
    ),
    static_local_limit=64 * 1024,
    clock=_CLOCK,
    instructions={},
)
