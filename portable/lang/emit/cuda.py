"""The spellings of CUDA C++, as NVRTC compiles it without headers (but for halves)."""

from __future__ import annotations

from math import prod
from typing import Final

from portable.backend import Capabilities
from portable.lang.emit.dialect import PTX_ATOMICS, SAME_NAME, Dialect, Helper, printf_formats
from portable.lang.emit.ptx import INSTRUCTIONS, PTX_CLOCK
from portable.lang.ir.kernel import Kernel, Options
from portable.lang.passes.semantics import Semantics

TYPES: Final = {
    "bool": "bool",
    "i32": "int",
    "u32": "unsigned int",
    "i64": "long long",
    "u64": "unsigned long long",
    "f16": "__half",
    "f32": "float",
    "f64": "double",
}

_BINARY: Final = ["atan2", "copysign", "fmod", "hypot", "nextafter", "pow"]


def _library() -> dict[str, str]:
    """The C library's names: an ``f`` behind single precision; halves go by way of it."""
    functions = {}
    for name in SAME_NAME:
        functions[f"{name}.f32"] = f"{name}f({{0}})"
        functions[f"{name}.f64"] = f"{name}({{0}})"
        functions[f"{name}.f16"] = f"__float2half_rn({name}f(__half2float({{0}})))"
    for name in _BINARY:
        functions[f"{name}.f32"] = f"{name}f({{0}}, {{1}})"
        functions[f"{name}.f64"] = f"{name}({{0}}, {{1}})"
        if name != "nextafter":
            operands = "__half2float({0}), __half2float({1})"
            functions[f"{name}.f16"] = f"__float2half_rn({name}f({operands}))"
    return functions


FUNCTIONS: Final = _library() | {
    "abs.f16": "__habs({0})",
    "abs.f32": "fabsf({0})",
    "abs.f64": "fabs({0})",
    "clz.i32": "__clz({0})",
    "clz.u32": "(unsigned int)__clz((int)({0}))",
    "clz.i64": "(long long)__clzll({0})",
    "clz.u64": "(unsigned long long)__clzll((long long)({0}))",
    "fma.f16": "__hfma({0}, {1}, {2})",
    "fma.f32": "fmaf({0}, {1}, {2})",
    "fma.f64": "fma({0}, {1}, {2})",
    "isfinite.f16": "(fabsf(__half2float({0})) <= 65504.0f)",
    "isfinite.f32": "(fabsf({0}) <= 3.4028235e+38f)",
    "isfinite.f64": "(fabs({0}) <= 1.7976931348623157e+308)",
    "isinf.f16": "(fabsf(__half2float({0})) > 65504.0f)",
    "isinf.f32": "(fabsf({0}) > 3.4028235e+38f)",
    "isinf.f64": "(fabs({0}) > 1.7976931348623157e+308)",
    "isnan": "@unordered",
    "mulhi.i32": "__mulhi({0}, {1})",
    "mulhi.u32": "__umulhi({0}, {1})",
    "mulhi.i64": "__mul64hi({0}, {1})",
    "mulhi.u64": "__umul64hi({0}, {1})",
    "popcount.i32": "(int)__popc((unsigned int)({0}))",  # HIP's gives an unsigned number
    "popcount.u32": "(unsigned int)__popc({0})",
    "popcount.i64": "(long long)__popcll((unsigned long long)({0}))",
    "popcount.u64": "(unsigned long long)__popcll({0})",
    "signbit.f16": "(__half_as_short({0}) < 0)",
    "signbit.f32": "(__float_as_int({0}) < 0)",
    "signbit.f64": "(__double_as_longlong({0}) < 0)",
}

FAST_FUNCTIONS: Final = {
    "exp.f32": "__expf({0})",
    "log.f32": "__logf({0})",
    "log2.f32": "__log2f({0})",
    "log10.f32": "__log10f({0})",
    "sin.f32": "__sinf({0})",
    "cos.f32": "__cosf({0})",
    "pow.f32": "__powf({0}, {1})",
}

HELPERS: Final = {
    "round_half": Helper("{T} {name}({T} x)\n{{\n    return __half2float(__float2half_rn(x));\n}}"),
    "unordered": Helper("bool {name}({T} x)\n{{\n    return x != x;\n}}"),
}

BITCASTS: Final = {
    "f32.i32": "__float_as_int({0})",
    "f32.u32": "__float_as_uint({0})",
    "i32.f32": "__int_as_float({0})",
    "u32.f32": "__uint_as_float({0})",
    "f64.i64": "__double_as_longlong({0})",
    "f64.u64": "(unsigned long long)__double_as_longlong({0})",
    "i64.f64": "__longlong_as_double({0})",
    "u64.f64": "__longlong_as_double((long long)({0}))",
}

HALF_CASTS: Final = {
    "f16.f32": "__half2float({0})",
    "f32.f16": "__float2half_rn({0})",
    "f16.f64": "(double)__half2float({0})",
    "i32.f16": "__int2half_rn({0})",
    "u32.f16": "__uint2half_rn({0})",
    "i64.f16": "__ll2half_rn({0})",
    "u64.f16": "__ull2half_rn({0})",
    "bool.f16": "__int2half_rn((int)({0}))",
}


def _preludes(kernel: Kernel, capabilities: Capabilities, features: frozenset[str]) -> list[str]:
    return ["#include <cuda_fp16.h>"] if "half" in features else []


def _workgroup(kernel: Kernel, capabilities: Capabilities, features: frozenset[str]) -> str:
    return f"__launch_bounds__({prod(kernel.workgroup)})"


def _flags(options: Options, capabilities: Capabilities) -> tuple[str, ...]:
    flags = ["--std=c++17"]
    if options.fastmath:
        flags.append("--use_fast_math")
    if not options.contract:
        flags.append("--fmad=false")
    return tuple(flags)


CUDA: Final = Dialect(
    name="cuda",
    types=TYPES,
    memory_types={
        "bool": "unsigned char",
        "i8": "signed char",
        "u8": "unsigned char",
        "i16": "short",
        "u16": "unsigned short",
    },
    suffixes={"i32": "", "u32": "u", "i64": "LL", "u64": "ULL", "f16": "", "f32": "f", "f64": ""},
    specials={
        "inf.f16": "__short_as_half(0x7c00)",
        "inf.f32": "__int_as_float(0x7f800000)",
        "inf.f64": "__longlong_as_double(0x7ff0000000000000LL)",
        "nan.f16": "__short_as_half(0x7e00)",
        "nan.f32": "__int_as_float(0x7fc00000)",
        "nan.f64": "__longlong_as_double(0x7ff8000000000000LL)",
        "literal.f16": "__float2half_rn({0}f)",
    },
    native_vectors=False,
    spaces={"global": "", "local": "", "private": ""},
    restrict="__restrict__",
    function="static __device__ __forceinline__",
    kernel='extern "C" __global__',
    work_items={
        "global_id": "({T})blockIdx.{x} * {size} + ({T})threadIdx.{x}",
        "local_id": "({T})threadIdx.{x}",
        "group_id": "({T})blockIdx.{x}",
        "global_size": "({T})gridDim.{x} * {size}",
        "num_groups": "({T})gridDim.{x}",
    },
    sums=frozenset({"global_id", "global_size"}),
    barrier="__syncthreads();",
    functions=FUNCTIONS,
    fast_functions=FAST_FUNCTIONS,
    bitcasts=BITCASTS,
    casts=HALF_CASTS | {"f32.i32": "__float2int_rz({0})", "f32.u32": "__float2uint_rz({0})"},
    half_load="__half2float({p}[{i}])",
    half_store="{p}[{i}] = __float2half_rn({v});",
    helpers=HELPERS,
    preludes=_preludes,
    workgroup=_workgroup,
    flags=_flags,
    sub_groups={"shuffle": "__shfl_sync(0xffffffffu >> (32u - {active}), {0}, (int)({1}))"},
    semantics=Semantics(saturating=frozenset({"f32.i32", "f32.u32"})),
    atomics=PTX_ATOMICS,
    printf_formats=printf_formats("ll"),
    static_local_limit=48 * 1024,
    local_static="__shared__ __align__(1024) char local_memory[{bytes}];",
    local_dynamic="extern __shared__ __align__(1024) char local_memory[];",
    box="const __grid_constant__ pt_boxes {name}",
    clock=PTX_CLOCK,
    instructions=INSTRUCTIONS,
)
