"""Conversions of halves for processors that have none.

There LLVM calls two functions of the compilers' own library, which no process is sure to hold:
programs with halves bring them along. Where the processor converts, nobody calls them.
"""

from __future__ import annotations

from typing import Final

__all__ = ["half_functions"]

_DEFINITIONS: Final = """\
@llvm.compiler.used = appending global [2 x ptr] [ptr @__extendhfsf2, ptr @__truncsfhf2], \
section "llvm.metadata"
define linkonce_odr hidden float @__extendhfsf2(half %x) nounwind {
%short = bitcast half %x to i16
%bits = zext i16 %short to i32
%high = and i32 %bits, 32768
%sign = shl i32 %high, 16
%size = and i32 %bits, 32767
%moved = shl i32 %size, 13
%normal = add i32 %moved, 939524096
%special = add i32 %moved, 1879048192
%whole = uitofp i32 %size to float
%scaled = fmul float %whole, 0x3E70000000000000
%small = bitcast float %scaled to i32
%is_small = icmp ult i32 %size, 1024
%is_special = icmp uge i32 %size, 31744
%first = select i1 %is_small, i32 %small, i32 %normal
%second = select i1 %is_special, i32 %special, i32 %first
%found = or i32 %sign, %second
%float = bitcast i32 %found to float
ret float %float
}
define linkonce_odr hidden half @__truncsfhf2(float %x) nounwind {
%bits = bitcast float %x to i32
%high = lshr i32 %bits, 16
%sign = and i32 %high, 32768
%size = and i32 %bits, 2147483647
%based = sub i32 %size, 939524096
%upper = lshr i32 %based, 13
%odd = and i32 %upper, 1
%half = add i32 %odd, 4095
%nearest = add i32 %based, %half
%normal = lshr i32 %nearest, 13
%positive = bitcast i32 %size to float
%added = fadd float %positive, 0.5
%sum = bitcast float %added to i32
%small = sub i32 %sum, 1056964608
%is_small = icmp ult i32 %size, 947912704
%is_huge = icmp uge i32 %size, 1199566848
%is_nan = icmp ugt i32 %size, 2139095040
%first = select i1 %is_small, i32 %small, i32 %normal
%second = select i1 %is_huge, i32 31744, i32 %first
%third = select i1 %is_nan, i32 32256, i32 %second
%found = or i32 %sign, %third
%short = trunc i32 %found to i16
%result = bitcast i16 %short to half
ret half %result
}"""


def half_functions(lines: list[str]) -> list[str]:
    """The definitions that a function's instructions may need."""
    return [_DEFINITIONS] if any("half" in line for line in lines) else []
