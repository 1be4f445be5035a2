"""A kernel written by hand in every dialect, to test backends without the language."""

from __future__ import annotations

from typing import Any

from portable.backend import Argument, Device, Program
from portable.dtypes import float32, int32, int64

GROUP = 64

_BODY = "{ int i = INDEX; if (i < n) x[i] += a * y[i]; }"
_OPENCL = "__kernel void axpy(__global float *x, __global const float *y, float a, int n) "
_OPENCL_OFFSETS = (
    "__kernel void axpy(__global float *x_, long xo, __global const float *y_, long yo, "
    "float a, int n) { __global float *x = x_ + xo; __global const float *y = y_ + yo; "
)
_CUDA = 'extern "C" __global__ void axpy(float *x, const float *y, float a, int n) '
_LLVM = """\
define void @axpy(ptr noalias %arguments, ptr noalias %launch, i64 %first, i64 %last, ptr %room) {
entry:
POINTERS
  %a.at = getelementptr i64, ptr %arguments, i64 A_SLOT
  %a = load float, ptr %a.at
  %n.at = getelementptr i64, ptr %arguments, i64 N_SLOT
  %n.narrow = load i32, ptr %n.at
  %n = sext i32 %n.narrow to i64
  %begin = mul i64 %first, GROUP
  %after = mul i64 %last, GROUP
  %end = call i64 @llvm.smin.i64(i64 %after, i64 %n)
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %x.at = getelementptr float, ptr %x, i64 %i
  %y.i.at = getelementptr float, ptr %y, i64 %i
  %x.i = load float, ptr %x.at
  %y.i = load float, ptr %y.i.at
  %product = fmul float %a, %y.i
  %sum = fadd float %x.i, %product
  store float %sum, ptr %x.at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)
"""
_LLVM_POINTERS = """\
  %x = load ptr, ptr %arguments
  %y.slot = getelementptr i64, ptr %arguments, i64 1
  %y = load ptr, ptr %y.slot"""
_LLVM_OFFSETS = """\
  %x.from = load ptr, ptr %arguments
  %xo.slot = getelementptr i64, ptr %arguments, i64 1
  %xo = load i64, ptr %xo.slot
  %x = getelementptr float, ptr %x.from, i64 %xo
  %y.slot = getelementptr i64, ptr %arguments, i64 2
  %y.from = load ptr, ptr %y.slot
  %yo.slot = getelementptr i64, ptr %arguments, i64 3
  %yo = load i64, ptr %yo.slot
  %y = getelementptr float, ptr %y.from, i64 %yo"""


def axpy(device: Device, *, source: str | None = None, workgroup: int = GROUP) -> Program:
    """``x += a * y`` over ``n`` contiguous elements, for the device's dialect."""
    offsets = device.capabilities.pointer_offsets
    arguments: list[Argument] = []
    for parameter in range(2):
        arguments.append(Argument("pointer", parameter, 0, float32))
        if offsets:
            arguments.append(Argument("offset", parameter, 0, int64))
    arguments.append(Argument("scalar", 2, 0, float32))
    arguments.append(Argument("scalar", 3, 0, int32))
    return Program(
        source=_source(device, workgroup) if source is None else source,
        entry="axpy",
        dialect=device.capabilities.dialect,
        arguments=tuple(arguments),
        workgroup=(workgroup, 1, 1),
        local_bytes=0,
        dynamic_local=False,
        flags=(),
    )


def _source(device: Device, workgroup: int) -> str:
    if device.capabilities.dialect == "llvm":
        offsets = device.capabilities.pointer_offsets
        pointers, slots = (_LLVM_OFFSETS, 4) if offsets else (_LLVM_POINTERS, 2)
        text = _LLVM.replace("POINTERS", pointers).replace("GROUP", str(workgroup))
        return text.replace("A_SLOT", str(slots)).replace("N_SLOT", str(slots + 1))
    if device.capabilities.dialect != "opencl":
        return _CUDA + _BODY.replace("INDEX", "blockIdx.x * blockDim.x + threadIdx.x")
    body = _BODY.replace("INDEX", "get_global_id(0)")
    if device.capabilities.pointer_offsets:
        return _OPENCL_OFFSETS + body + " }"
    return _OPENCL + body


def bind(device: Device, x: Any, y: Any, a: float, n: int) -> list[Any]:
    """The arguments of one launch."""
    bound: list[Any] = []
    for array in (x, y):
        view = device.view(array)
        bound.append(view.handle)
        if device.capabilities.pointer_offsets:
            bound.append(view.offset // view.dtype.itemsize)
    return [*bound, a, n]


def groups(n: int) -> tuple[int, int, int]:
    """Workgroups that cover `n` elements."""
    return (-(-n // GROUP), 1, 1)


def run(device: Device, arrays: tuple[Any, Any], a: float, n: int) -> None:
    """Compile and launch once."""
    device.compile(axpy(device)).launch(groups(n), bind(device, *arrays, a, n))
