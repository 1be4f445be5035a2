"""Pseudo-random delays around whatever synchronises, so that programs meet rare orders of events.

``PORTABLE_PERTURB`` holds a seed. With it, sub-groups and workgroups wait for a while before and
after barriers, atomics, fences, copies and waits: mostly not at all, often for a moment, now and
then for longer than everything else in the kernel takes. How long depends on the seed, the place
in the program, the workgroup, the sub-group and the rounds of the loops around it. A program that
is right stays right, since all work-items of a sub-group wait equally long wherever they are
together. Without a seed nothing is added, and the text is the same to the letter.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Final

from portable.dtypes import int32, uint32
from portable.errors import LaunchError
from portable.lang.emit.context import Context
from portable.lang.emit.expressions import Expressions
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import all_statements
from portable.lang.ir.make import sub_group_id

_VARIABLE: Final = "PORTABLE_PERTURB"

_BEFORE: Final = (s.Barrier, s.WorkgroupUniform, s.Fence, s.Atomic, s.CopyVector)
_AFTER: Final = (s.Barrier, s.WorkgroupUniform, s.Fence, s.Atomic)
_INSTRUCTIONS: Final = ("cp.async.", "mbarrier.", "bulk.", "tensor.", "proxy.")
_WAITS: Final = ("cp.async.wait", "mbarrier.wait", "bulk.wait")
"""Of the device's own instructions. None stands among those of matrix units: a branch there would
make the assembler wait for each of them."""

_FACTORS: Final = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F)

_LENGTHS: Final = """\
{function} void pt_delay({u32} x, const {u32} place, const {u32} turn)
{{
    x ^= place ^ turn * {factor}u;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    x ^= x >> 16;
    const {u32} luck = x & 255u;
    if (luck < 160u)
        return;
    const {u32} most = luck < 208u ? 6u : luck < 240u ? 10u : luck < 254u ? 14u : 17u;
    const {u32} length = (x >> 8) >> (24u - most) >> {share}u;
{wait}
}}"""

_CLOCK: Final = """\
    const {u64} start = pt_clock();
    while (pt_clock() - start < length) {{
    }}"""

_ROUNDS: Final = """\
    for (volatile {u32} left = length; left != 0;)
        left = left - 1;"""


def perturbation() -> int | None:
    """The seed of the delays; None for none.

    Raises
    ------
    LaunchError
        If ``PORTABLE_PERTURB`` holds no number.
    """
    text = os.environ.get(_VARIABLE, "").strip()
    if not text:
        return None
    if not text.isdecimal() or not text.isascii():
        raise LaunchError(f"{_VARIABLE} is {text!r}; it must be a number from 0, or unset")
    return int(text)


class Delays:
    """The delays of one kernel.

    Parameters
    ----------
    expressions : Expressions
        Of the kernel that is printed.
    """

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._context = expressions.context
        seed = perturbation()
        self._seed = seed if seed is not None and _synchronises(self._context) else None
        self._places = 0
        self._rounds: list[str] = []

    # -- where ------------------------------------------------------------------------------

    def before(self, x: s.Statement) -> list[str]:
        """The lines before a statement."""
        named = isinstance(x, s.Instruction) and x.name.startswith(_INSTRUCTIONS)
        return self._delay() if named or isinstance(x, _BEFORE) else []

    def after(self, x: s.Statement) -> list[str]:
        """The lines after a statement."""
        named = isinstance(x, s.Instruction) and x.name.startswith(_WAITS)
        return self._delay() if named or isinstance(x, _AFTER) else []

    def start(self) -> list[str]:
        """The lines at the beginning of the kernel: what is this sub-group's own."""
        if self._seed is None:
            return []
        seeds = " ^ ".join(f"({self._expressions.text(x)})" for x in self._own())
        return [f"const {self._u32} pt_own = {seeds};", *self._delay()]

    @contextmanager
    def loop(self, variable: str) -> Iterator[None]:
        """The body of a loop whose rounds the C variable counts."""
        self._rounds.append(variable)
        yield
        self._rounds.pop()

    @contextmanager
    def endless(self) -> Iterator[tuple[list[str], list[str]]]:
        """The body of a loop without a counter; gives the lines before the loop and in it."""
        if self._seed is None:
            yield [], []
            return
        counter = self._context.names.fresh("round")
        with self.loop(counter):
            yield [f"{self._u32} {counter} = 0;"], [f"++{counter};"]

    # -- how --------------------------------------------------------------------------------

    @property
    def _u32(self) -> str:
        return self._context.dialect.types["u32"]

    def _delay(self) -> list[str]:
        if self._seed is None:
            return []
        self._context.prelude.define("pt_delay", self._definition)
        self._places += 1
        site = zlib.crc32(f"{self._seed} {self._context.kernel.name} {self._places}".encode())
        rounds = (f"({self._u32}){name} * {i}u" for i, name in enumerate(self._rounds, start=1))
        return [f"pt_delay(pt_own, {site}u, {' + '.join(rounds) or '0u'});"]

    def _own(self) -> list[e.Expression]:
        """Numbers that tell the workgroup and the sub-group from others."""
        sub_group = sub_group_id(self._context.kernel, int32)
        numbers: list[e.Expression] = [e.WorkItem("group_id", dim, uint32) for dim in range(3)]
        numbers.append(e.Cast(sub_group, uint32))
        return [
            e.Binary("mul", x, e.Const(factor, uint32))
            for x, factor in zip(numbers, _FACTORS, strict=True)
        ]

    def _definition(self) -> str:
        dialect = self._context.dialect
        words = {
            "function": dialect.function,
            "u32": dialect.types["u32"],
            "u64": dialect.types["u64"],
            "asm": f"{dialect.asm} volatile",
            "factor": str(_FACTORS[0]),
            "share": str(self._share()),
        }
        clock = self._context.dialect.clock
        wait = (_CLOCK if clock else _ROUNDS).format(**words)
        text = _LENGTHS.format(**words, wait=wait)
        return f"{clock.format(**words)}\n\n{text}" if clock else text

    def _share(self) -> int:
        """Halvings of every delay, for processors, which run a workgroup's items in turn."""
        if self._context.capabilities.local_memory_dedicated:
            return 0
        return prod(self._context.kernel.workgroup).bit_length() - 1


def _synchronises(context: Context) -> bool:
    kinds = (*_BEFORE, s.Instruction)
    return any(isinstance(x, kinds) for x in all_statements(context.kernel.body))
