"""Pseudo-random delays around whatever synchronises, so that programs meet rare orders of events.

``PORTABLE_PERTURB`` holds a seed. With it, sub-groups and workgroups wait for a while before and
after barriers, atomics, fences, copies and waits: mostly not at all, often for a moment, now and
then for longer than everything else in the kernel takes. How long depends on the seed, the place in
the program, the workgroup, the sub-group and the rounds of the loops around it. A program that is
right stays right, since all work-items of a sub-group wait equally long wherever they are together.
Without a seed nothing is added, and the text is the same to the letter.

A delay is an `Instruction` of that name, which each language prints as a call of a function.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from portable.dtypes import uint32
from portable.errors import LaunchError, Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.walks import all_statements, map_blocks

DELAY: Final = "delay"
"""The instruction; it is given what is the sub-group's own, the place, and the rounds."""

FACTORS: Final = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F)
"""By which numbers are multiplied that tell sub-groups and rounds from others."""

_VARIABLE: Final = "PORTABLE_PERTURB"
_AFTER: Final = (s.Barrier, s.WorkgroupUniform, s.Fence, s.Atomic)
_BEFORE: Final = (*_AFTER, s.CopyVector)
_INSTRUCTIONS: Final = ("cp.async.", "mbarrier.", "bulk.", "tensor.", "proxy.")
_WAITS: Final = ("cp.async.wait", "mbarrier.wait", "bulk.wait")
"""Of the device's own instructions. None stands among those of matrix units: a branch there would
make the assembler wait for each of them."""

_OWN: Final = e.Variable("delay.own", uint32)
_ROUND: Final = "delay.round"


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


def delayed(kernel: Kernel, further: Sequence[e.Expression] = ()) -> Kernel:
    """The kernel with the delays of the seed, if there is one and anything synchronises.

    Parameters
    ----------
    kernel : Kernel
    further : sequence of Expression
        Numbers that tell the sub-group from others of its workgroup.

    Raises
    ------
    LaunchError
        If ``PORTABLE_PERTURB`` holds no number.
    """
    seed = perturbation()
    if seed is None or not any(map(_waits_before, all_statements(kernel.body))):
        return kernel
    return _Delays(kernel, seed).kernel(further)


def is_delay(x: s.Statement) -> bool:
    """Whether a statement stands there for delays alone."""
    counts = isinstance(x, s.Assign) and x.var.name.startswith(_ROUND)
    return counts or (isinstance(x, s.Instruction) and x.name == DELAY)


def _waits_before(x: s.Statement) -> bool:
    named = isinstance(x, s.Instruction) and x.name.startswith(_INSTRUCTIONS)
    return named or isinstance(x, _BEFORE)


def _waits_after(x: s.Statement) -> bool:
    named = isinstance(x, s.Instruction) and x.name.startswith(_WAITS)
    return named or isinstance(x, _AFTER)


def _scaled(x: e.Expression, factor: int) -> e.Expression:
    number = x if x.type is uint32 else e.Cast(x, uint32)
    return e.Binary("mul", number, e.Const(factor, uint32))


class _Delays:
    """The delays of one kernel."""

    def __init__(self, kernel: Kernel, seed: int) -> None:
        self._kernel = kernel
        self._seed = seed
        self._places = 0
        self._counters: list[e.Variable] = []

    def kernel(self, further: Sequence[e.Expression]) -> Kernel:
        """The kernel, which begins with a delay."""
        kernel = self._kernel
        groups = (e.WorkItem("group_id", dim, uint32) for dim in range(3))
        scaled = map(_scaled, (*groups, *further), FACTORS)
        own = reduce(lambda x, y: e.Binary("xor", x, y), scaled)
        start = (s.Let(_OWN, own, kernel.loc), self._delay((), kernel.loc))
        body = (*start, *self._block(kernel.body, ()))
        return replace(kernel, body=body, variables=(*kernel.variables, *self._counters))

    def _block(self, block: s.Block, rounds: tuple[e.Variable, ...]) -> s.Block:
        """A block within loops whose rounds are counted by variables."""
        out: list[s.Statement] = []
        for x in block:
            if _waits_before(x):
                out.append(self._delay(rounds, x.loc))
            out += self._loop(x, rounds) if isinstance(x, s.Loop) else [self._inside(x, rounds)]
            if _waits_after(x):
                out.append(self._delay(rounds, x.loc))
        return tuple(out)

    def _inside(self, x: s.Statement, rounds: tuple[e.Variable, ...]) -> s.Statement:
        counted = (*rounds, x.var) if isinstance(x, s.For) else rounds
        return map_blocks(x, lambda block: self._block(block, counted))

    def _loop(self, x: s.Loop, rounds: tuple[e.Variable, ...]) -> list[s.Statement]:
        """A loop without a counter, with one."""
        counter = e.Variable(f"{_ROUND}{len(self._counters)}", uint32)
        self._counters.append(counter)
        more = s.Assign(counter, e.Binary("add", counter, e.Const(1, uint32)), x.loc)
        body = (more, *self._block(x.body, (*rounds, counter)))
        return [s.Assign(counter, e.Const(0, uint32), x.loc), replace(x, body=body)]

    def _delay(self, rounds: tuple[e.Variable, ...], loc: Location) -> s.Instruction:
        self._places += 1
        site = zlib.crc32(f"{self._seed} {self._kernel.name} {self._places}".encode())
        turn: e.Expression | None = None
        for number, counter in enumerate(rounds, start=1):
            turns = _scaled(counter, number)
            turn = turns if turn is None else e.Binary("add", turn, turns)
        return s.Instruction(
            DELAY, loc, inputs=(_OWN, e.Const(site, uint32), turn or e.Const(0, uint32))
        )
