"""The spellings of OpenCL C."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from portable.backend import Capabilities
from portable.lang.emit.dialect import (
    PTX_ATOMICS,
    SAME_NAME,
    Asm,
    AtomicWords,
    Dialect,
    Helper,
    printf_formats,
)
from portable.lang.emit.ptx import INSTRUCTIONS, PTX_CLOCK
from portable.lang.ir.kernel import Kernel, Options
from portable.lang.passes.semantics import Semantics

COVER: Final = "//sm_90a "
"""Before instructions that NVIDIA's compiler must not see yet: they are of one generation alone,
and it compiles for all from that one on. Backends take it away from the binary, which is text."""

_ASM: Final = "__asm__"
_TYPES: Final = {
    "bool": "bool",
    "i32": "int",
    "u32": "uint",
    "i64": "long",
    "u64": "ulong",
    "f16": "half",
    "f32": "float",
    "f64": "double",
}

_FUNCTIONS: Final = {name: f"{name}({{0}})" for name in SAME_NAME} | {
    "abs.f": "fabs({0})",
    "atan2": "atan2({0}, {1})",
    "clz": "clz({0})",
    "copysign": "copysign({0}, {1})",
    "fma": "fma({0}, {1}, {2})",
    "fmod": "fmod({0}, {1})",
    "hypot": "hypot({0}, {1})",
    "isfinite": "(isfinite({0}) != 0)",
    "isinf": "(isinf({0}) != 0)",
    "isnan": "(isnan({0}) != 0)",
    "mulhi": "mul_hi({0}, {1})",
    "nextafter": "nextafter({0}, {1})",
    "popcount": "popcount({0})",
    "pow": "pow({0}, {1})",
    "signbit": "(signbit({0}) != 0)",
}

_HELPERS: Final = {
    "round_half": Helper(
        """{T} {name}({T} x)
{{
    ushort bits;
    vstore_half_rte(x, 0, (__private half *)&bits);
    return vload_half(0, (__private half *)&bits);
}}"""
    ),
}

_PAIRS: Final = [("i32", "u32", "f32"), ("i64", "u64", "f64")]
_BITCASTS: Final = {
    f"{a}.{b}": f"as_{_TYPES[b]}({{0}})" for group in _PAIRS for a in group for b in group if a != b
}


def _preludes(kernel: Kernel, capabilities: Capabilities, features: frozenset[str]) -> list[str]:
    extensions = []
    if kernel.options.native_half:
        extensions.append("cl_khr_fp16")
    if "atomics64" in features:
        extensions += ["cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"]
    if "sub_groups" in features:
        extensions.append("cl_khr_subgroups")
    lines = [f"#pragma OPENCL EXTENSION {name} : enable" for name in extensions]
    if not kernel.options.contract:
        lines.append("#pragma OPENCL FP_CONTRACT OFF")
    return lines


def _workgroup(kernel: Kernel, capabilities: Capabilities, features: frozenset[str]) -> str:
    x, y, z = kernel.launched
    return f"__attribute__((reqd_work_group_size({x}, {y}, {z})))"


def _intels_workgroup(kernel: Kernel, capabilities: Capabilities, features: frozenset[str]) -> str:
    """With the size of sub-groups; on processors a lone work-item is told to stay alone.

    Intel's compiler for processors makes two versions of each kernel, one of them with neighbouring
    work-items in the lanes of vectors. No launch of single work-items uses that one, which was seen
    to take from two thirds to seven eighths of the time to compile.
    """
    text = _workgroup(kernel, capabilities, features)
    if "sub_groups" in features:
        text += f" __attribute__((intel_reqd_sub_group_size({kernel.sub_group_size})))"
    elif capabilities.kind == "cpu" and kernel.launched == (1, 1, 1):
        text += " __attribute__((intel_vec_len_hint(1)))"
    return text


_SHUFFLE: Final = """\
static inline __attribute__((always_inline, overloadable)) {T} pt_shuffle({T} x, int from, uint who)
{{
    {bits} found;
    __asm__ volatile("{words}" : "={c}"(found) : "{c}"(as_{bits}(x)), "r"(from), "r"(who));
    return as_{T}(found);
}}"""
_SHUFFLES: Final = {
    ("int", "uint", "float"): ("uint", "r", "shfl.sync.idx.b32 %0, %1, %2, 31, %3;"),
    ("long", "ulong", "double"): (
        "ulong",
        "l",
        (
            "{ .reg .b32 low, high; mov.b64 {low, high}, %1; "
            "shfl.sync.idx.b32 low, low, %2, 31, %3; shfl.sync.idx.b32 high, high, %2, 31, %3; "
            "mov.b64 %0, {low, high}; }"
        ),
    ),
}


def _nvidias_preludes(
    kernel: Kernel, capabilities: Capabilities, features: frozenset[str]
) -> list[str]:
    lines = _preludes(kernel, capabilities, features - {"sub_groups"})
    if "sub_groups" in features:
        for names, (bits, letter, words) in _SHUFFLES.items():
            lines += [_SHUFFLE.format(T=x, bits=bits, c=letter, words=words) for x in names]
    return lines


_LOCAL: Final = "__local char local_memory[{{bytes}}] __attribute__((aligned({at})));"
_IN_SWIZZLES: Final = _LOCAL.format(at=1024)
"""Warpgroup instructions turn the chunks of rows by bits of their addresses."""


def _varied(dialect: Dialect, capabilities: Capabilities) -> Dialect:
    """OpenCL C as a vendor's compiler has it, and as compilers for processors do: all are Clang."""
    dialect = replace(dialect, clang=capabilities.kind == "cpu")
    if capabilities.vendor == "intel":
        return replace(dialect, workgroup=_intels_workgroup)
    if capabilities.vendor != "nvidia":
        return dialect
    # NVIDIA's OpenCL C has no orders across workgroups, no shuffles and no barriers of some
    # work-items; its assembler has.
    ordered = capabilities.memory_orders == "acq_rel"
    atomics = PTX_ATOMICS if ordered else dialect.atomics
    first = _assembled(INSTRUCTIONS["barrier.first"])
    if any(unit.startswith("wgmma.") for unit in capabilities.matrix_units):
        dialect = replace(dialect, local_static=_IN_SWIZZLES)
    return replace(
        dialect,
        atomics=atomics,
        clock=PTX_CLOCK,
        preludes=_nvidias_preludes,
        sub_groups={"shuffle": "pt_shuffle({0}, {1}, 0xffffffffu >> (32u - {active}))"},
        instructions={**dialect.instructions, "barrier.first": first},
    )


def _flags(options: Options, capabilities: Capabilities) -> tuple[str, ...]:
    """Which standard a driver takes is known to those who ask it (`portable_backends`)."""
    if options.fastmath:
        return ("-cl-fast-relaxed-math",)
    if capabilities.rounded_division32:
        return ("-cl-fp32-correctly-rounded-divide-sqrt",)
    return ()


_PREFETCH: Final = {"prefetch": Asm("__builtin_prefetch((const void *){a0}, 0, 2);")}
"""Into the second level of a processor's caches; drivers for these are made of Clang."""


def _assembled(spelled: Asm) -> Asm:
    """The same in OpenCL C, whose longest integer is called otherwise."""
    return Asm(re.sub(r"\basm\b", _ASM, spelled.text).replace("unsigned long long", "ulong"))


def _covered(spelled: Asm) -> Asm:
    """With instructions of one generation alone in comments."""
    return Asm(re.sub(r'\("(?=wgmma\.|setmaxnreg\.)', f'("{COVER}', spelled.text))


def _instructions() -> dict[str, Asm]:
    """What NVIDIA's OpenCL assembles, in PTX; and Clang.

    Not the barriers of some work-items, which other devices lack and nothing asks for.
    """
    return _PREFETCH | {
        name: _covered(_assembled(spelled))
        for name, spelled in INSTRUCTIONS.items()
        if not name.startswith("barrier.")
    }


OPENCL: Final = Dialect(
    name="opencl",
    types=_TYPES,
    memory_types={"bool": "uchar", "i8": "char", "u8": "uchar", "i16": "short", "u16": "ushort"},
    suffixes={"i32": "", "u32": "u", "i64": "L", "u64": "UL", "f16": "h", "f32": "f", "f64": ""},
    specials={
        "inf.f16": "(half)INFINITY",
        "inf.f32": "INFINITY",
        "inf.f64": "(double)INFINITY",
        "nan.f16": "(half)NAN",
        "nan.f32": "NAN",
        "nan.f64": "(double)NAN",
    },
    native_vectors=True,
    spaces={"global": "__global ", "local": "__local ", "private": ""},
    restrict="restrict",
    function="static inline __attribute__((always_inline))",
    kernel="__kernel",
    work_items={
        "global_id": "({T})get_global_id({d})",
        "local_id": "({T})get_local_id({d})",
        "local_linear_id": "({T})get_local_id(0)",
        "group_id": "({T})get_group_id({d})",
        "global_size": "({T})get_global_size({d})",
        "num_groups": "({T})get_num_groups({d})",
    },
    sums=frozenset(),
    barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    functions=_FUNCTIONS,
    fast_functions={},
    bitcasts=_BITCASTS | {"f16.u16": "as_ushort({0})"},
    casts={},
    half_load="vload_half({i}, {p})",
    half_store="vstore_half_rte({v}, {i}, {p});",
    helpers=_HELPERS,
    preludes=_preludes,
    workgroup=_workgroup,
    flags=_flags,
    sub_groups={"shuffle": "sub_group_shuffle({0}, {1})"},
    semantics=Semantics(flat_sub_groups=True),
    atomics=AtomicWords(
        style="opencl",
        orders={
            name: f"memory_order_{name}" for name in ("relaxed", "acquire", "release", "acq_rel")
        },
        scopes={"workgroup": "memory_scope_work_group", "device": "memory_scope_device"},
    ),
    printf_formats=printf_formats("l"),
    static_local_limit=2**31,
    local_static=_LOCAL.format(at=128),
    local_dynamic="",
    address="(ulong)({p})",
    shared_address="(uint)(size_t)({p})",
    instructions=_instructions(),
    box="const ulong16 {name}",
    box_address="pt_{name}",
    box_begun=(
        'ulong pt_{name}; __asm__("mov.b64 %0, {entry}_param_{number}; cvta.param.u64 %0, %0;" '
        ': "=l"(pt_{name}));'
    ),
    asm=_ASM,
    varied=_varied,
)
