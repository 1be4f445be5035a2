"""What delays are calls of; see `portable.lang.passes.delays`."""

from __future__ import annotations

from typing import Final

from portable.lang.emit.llvm.expressions import Expressions
from portable.lang.ir import statements as s
from portable.lang.passes.delays import FACTORS

_DEFINITION: Final = f"""\
define internal void @pt_delay(i32 %own, i32 %place, i32 %turn) nounwind {{
start:
%rounds = alloca i32
%t0 = mul i32 %turn, {FACTORS[0]}
%x0 = xor i32 %own, %place
%x1 = xor i32 %x0, %t0
%h0 = lshr i32 %x1, 16
%x2 = xor i32 %x1, %h0
%x3 = mul i32 %x2, 2146121005
%h1 = lshr i32 %x3, 15
%x4 = xor i32 %x3, %h1
%x5 = mul i32 %x4, 2221713035
%h2 = lshr i32 %x5, 16
%x6 = xor i32 %x5, %h2
%luck = and i32 %x6, 255
%none = icmp ult i32 %luck, 160
%short = icmp ult i32 %luck, 208
%middle = icmp ult i32 %luck, 240
%long = icmp ult i32 %luck, 254
%m0 = select i1 %long, i32 10, i32 7
%m1 = select i1 %middle, i32 14, i32 %m0
%m2 = select i1 %short, i32 18, i32 %m1
%n0 = lshr i32 %x6, 8
%n1 = lshr i32 %n0, %m2
%n = select i1 %none, i32 0, i32 %n1
store volatile i32 %n, ptr %rounds
br label %again
again:
%left = load volatile i32, ptr %rounds
%less = sub i32 %left, 1
store volatile i32 %less, ptr %rounds
%more = icmp sgt i32 %left, 0
br i1 %more, label %again, label %done
done:
ret void
}}"""
"""Mostly not at all, often for a moment, now and then for longer than all else takes."""


def delay(expressions: Expressions, x: s.Instruction) -> None:
    """A call of the function that waits.

    Parameters
    ----------
    expressions : Expressions
        Of the kernel that is printed.
    x : Instruction
        What `portable.lang.passes.delays` adds.
    """
    builder = expressions.builder
    builder.declare("pt_delay", _DEFINITION)
    given = ", ".join(map(expressions.typed, x.inputs))
    builder.do(f"call void @pt_delay({given})")
