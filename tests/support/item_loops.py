"""Runs what `portable.lang.passes.work_items` makes, on devices whose programs know work-items.

Loops over work-items become plain ones, in a workgroup of one work-item that does the work of all.
So a kernel is run twice on the same device, as it is and in loops, with results of the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any
from unittest import mock

import numpy as np

import portable as pt
from portable import dtypes as dt
from portable.backend import Capabilities, Device
from portable.lang import emit
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.walks import all_statements, map_blocks, map_expression, map_operands
from portable.lang.passes import reduced
from portable.lang.passes.semantics import Semantics
from portable.lang.passes.work_items import in_loops
from portable.lang.tiles import lower
from portable_backends.simulator.backend import SimulatorDevice
from tests.support.launch import run

_SIMULATED = Semantics(signed_wraps=True, saturating=frozenset())


def plain_loops(kernel: Kernel) -> Kernel:
    """A kernel that `in_loops` gave, with plain loops over work-items, for workgroups of one."""
    if kernel.workgroup == (1, 1, 1):
        return kernel
    loops = _PlainLoops(kernel)
    body = loops.block(kernel.body)
    changed = replace(kernel, body=body, workgroup=(1, 1, 1), flat=False)
    return replace(changed, variables=(*kernel.variables, *loops.variables))


def through_loops(kernel: Kernel) -> Kernel:
    """A kernel that `reduced` gave, with plain loops over its work-items."""
    return plain_loops(in_loops(kernel))


class _PlainLoops:
    def __init__(self, kernel: Kernel) -> None:
        self._workgroup = kernel.workgroup
        self.variables: list[e.Variable] = []

    def block(self, block: s.Block, places: tuple[e.Expression, ...] | None = None) -> s.Block:
        """A block, as the work-item at a place does it; None around loops over work-items."""
        out: list[s.Statement] = []
        for x in block:
            if isinstance(x, s.ForItems):
                assert places is None, "a loop over work-items stands in another one"
                out += self._items(x)
                continue
            assert x.together() == "work_item", f"{type(x).__name__} is left"
            y = map_operands(x, lambda y: map_expression(y, lambda z: self._word(z, places)))
            out.append(map_blocks(y, lambda inner: self.block(inner, places)))
        return tuple(out)

    def _items(self, x: s.ForItems) -> s.Block:
        number = len(self.variables)
        ended = e.Variable(f"ended.{number}", dt.bool_)
        self.variables.append(ended)
        places = [e.Variable(f"local.{number}.{dim}", dt.int32) for dim in range(3)]
        body = self.block(x.body, tuple(places))
        if any(isinstance(y, s.Return) for y in all_statements(body)):
            start = s.Assign(ended, e.Const(False, dt.bool_), x.loc)
            body = (start, *_without_returns(body, ended, in_loop=False))
        zero, one = e.Const(0, dt.int32), e.Const(1, dt.int32)
        for place, size in zip(places, self._workgroup, strict=True):
            body = (s.For(place, zero, e.Const(size, dt.int32), one, body, x.loc),)
        return body

    def _word(self, x: e.Expression, places: tuple[e.Expression, ...] | None) -> e.Expression:
        if not isinstance(x, e.WorkItem):
            return x
        size, group = self._workgroup, e.WorkItem("group_id", x.dim, x.type)
        extent = e.Const(size[x.dim], x.type)
        if x.word in ("group_id", "num_groups"):
            return x
        if x.word == "global_size":
            return e.Binary("mul", e.WorkItem("num_groups", x.dim, x.type), extent)
        if x.word == "sub_group_local_id":
            return e.Const(0, x.type)
        assert places is not None, f"{x.word} stands outside of loops over work-items"
        at = [_as(place, x.type) for place in places]
        if x.word == "local_id":
            return at[x.dim]
        if x.word == "global_id":
            return e.Binary("add", e.Binary("mul", group, extent), at[x.dim])
        rows = e.Binary("add", e.Binary("mul", at[2], e.Const(size[1], x.type)), at[1])
        return e.Binary("add", e.Binary("mul", rows, e.Const(size[0], x.type)), at[0])


def _as(x: e.Expression, kind: dt.DType) -> e.Expression:
    return x if x.type is kind else e.Cast(x, kind)


def _without_returns(block: s.Block, ended: e.Variable, *, in_loop: bool) -> s.Block:
    """A round's statements, which go on to the end of the round where they would return."""
    out: list[s.Statement] = []
    for number, x in enumerate(block):
        if isinstance(x, s.Return):
            out.append(s.Assign(ended, e.Const(True, dt.bool_), x.loc))
            return (*out, s.Break(x.loc)) if in_loop else tuple(out)
        if not any(isinstance(y, s.Return) for y in all_statements((x,))):
            out.append(x)
            continue
        loop = in_loop or isinstance(x, s.For | s.Loop)
        out.append(
            map_blocks(x, lambda y, loop=loop: _without_returns(y, ended, in_loop=loop))  # type: ignore[misc]
        )
        rest = _without_returns(block[number + 1 :], ended, in_loop=in_loop)
        if in_loop:
            return (*out, s.If(ended, (s.Break(x.loc),), (), x.loc), *rest)
        return (*out, s.If(e.Unary("not", ended), rest, (), x.loc))
    return tuple(out)


class LoopingSimulator(SimulatorDevice):
    """A simulator that runs kernels in loops over work-items; `made` holds what these were."""

    def __init__(self, profile: str, capabilities: Capabilities) -> None:
        super().__init__(profile, capabilities)
        self.made: list[Kernel] = []

    def interpret(self, kernel: Any) -> Any:
        """Make a kernel ready to run."""
        lowered = reduced(lower(kernel, self.capabilities), self.capabilities, _SIMULATED)
        self.made.append(in_loops(lowered))
        return super().interpret(plain_loops(self.made[-1]))


def looping_device(device: Device) -> Device:
    """A device like another one, with sub-groups of one work-item, whose kernels may be looped."""
    made = object.__new__(type(device))  # a copy would be the very same device
    made.__dict__.update(device.__dict__)
    made.name = f"{device.name}, in loops"
    compressed = device.capabilities.compressed_bytes
    made.capabilities = replace(
        device.capabilities, sub_group_size=1, compressed_bytes=lambda: compressed
    )
    return made


@contextmanager
def loops_on(device: Device) -> Iterator[None]:
    """Lets programs that are generated for a device have loops over work-items."""
    plain: Callable[..., Kernel] = emit.reduced

    def changed(kernel: Kernel, capabilities: Capabilities, semantics: Semantics) -> Kernel:
        made = plain(kernel, capabilities, semantics)
        return through_loops(made) if capabilities is device.capabilities else made

    with mock.patch.object(emit, "reduced", changed):
        yield


_COUNT = count()


def looped(launcher: Callable[..., None], *args: Any, **constants: Any) -> Kernel:
    """The kernel of a launch in loops; its results are those of the plain simulator."""
    plain = replace(pt.device("simulator").capabilities, sub_group_size=1)
    device = LoopingSimulator(f"loops {next(_COUNT)}", plain)  # programs are kept by device
    found = run(device, launcher, *args, **constants)
    wanted = run(SimulatorDevice("plain", plain), launcher, *args, **constants)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return device.made[-1]


def loops_of(block: s.Block) -> list[Any]:
    """The loops of a block, with those in them: "items", "for", "loop"; branches too."""
    names = {s.ForItems: "items", s.For: "for", s.Loop: "loop", s.If: "if"}
    found: list[Any] = []
    for x in block:
        if type(x) in names:
            inner = [y for inside in x.blocks() for y in loops_of(inside)]
            found.append([names[type(x)], *inner] if inner else names[type(x)])
    return found


def inside_loops(kernel: Kernel, kind: type) -> int:
    """How many statements of a class are in loops over work-items."""
    loops = (x for x in all_statements(kernel.body) if isinstance(x, s.ForItems))
    return sum(isinstance(y, kind) for x in loops for y in all_statements(x.body))


def counting(size: int = 256) -> np.ndarray[Any, Any]:
    """Numbers from 1 to 17, over and over."""
    return np.arange(size, dtype=np.float32) % 17 + 1
