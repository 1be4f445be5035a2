"""Pseudo-random delays around whatever synchronises; see `portable.lang.emit.delays`."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from portable.lang.emit.delays import perturbation
from portable.lang.emit.llvm.expressions import Expressions
from portable.lang.emit.llvm.places import GROUPS
from portable.lang.ir import statements as s
from portable.lang.ir.walk import all_statements

_SYNCHRONISING: Final = (s.Fence, s.Atomic)

_FACTORS: Final = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35)

_DEFINITION: Final = f"""\
define internal void @pt_delay(i32 %own, i32 %place, i32 %turn) nounwind {{
start:
%rounds = alloca i32
%t0 = mul i32 %turn, {_FACTORS[0]}
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


class Delays:
    """The delays of one kernel.

    Parameters
    ----------
    expressions : Expressions
        Of the kernel that is printed.
    """

    def __init__(self, expressions: Expressions) -> None:
        self._builder = expressions.builder
        self._kernel = expressions.context.kernel
        synchronises = any(isinstance(x, _SYNCHRONISING) for x in all_statements(self._kernel.body))
        self._seed = perturbation() if synchronises else None
        self._places = 0
        self._rounds: list[tuple[str, str]] = []

    @contextmanager
    def loop(self, counter: str, kind: str) -> Iterator[None]:
        """The body of a loop whose rounds are counted by a value."""
        self._rounds.append((counter, kind))
        yield
        self._rounds.pop()

    @contextmanager
    def around(self, x: s.Statement) -> Iterator[None]:
        """A statement, with delays before and after it where it synchronises."""
        waits = isinstance(x, _SYNCHRONISING)
        if waits:
            self.wait()
        yield
        if waits:
            self.wait()

    def wait(self) -> None:
        """A delay, if there is a seed for it."""
        if self._seed is None:
            return
        builder = self._builder
        builder.declare("pt_delay", _DEFINITION)
        self._places += 1
        site = zlib.crc32(f"{self._seed} {self._kernel.name} {self._places}".encode())
        turn = "0"
        for number, (counter, kind) in enumerate(self._rounds, start=1):
            narrow = builder.op(f"trunc i64 {counter} to i32") if kind == "i64" else counter
            scaled = builder.op(f"mul i32 {narrow}, {number}")
            turn = builder.op(f"add i32 {turn}, {scaled}")
        builder.do(f"call void @pt_delay(i32 {self._own()}, i32 {site}, i32 {turn})")

    def _own(self) -> str:
        """A number that tells the workgroup from others."""
        total = "0"
        for group, factor in zip(GROUPS, _FACTORS, strict=True):
            narrow = self._builder.op(f"trunc i64 {group} to i32")
            scaled = self._builder.op(f"mul i32 {narrow}, {factor}")
            total = self._builder.op(f"xor i32 {total}, {scaled}")
        return total
