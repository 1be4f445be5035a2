"""Tiles of matrices, in terms of what one device has: fragments, their layouts, copies of tiles.

`lower` is the stage between the checks and `portable.lang.passes`. What comes out still means the
same everywhere; the simulator runs it. Fragments become plain statements first, since these may
give local arrays new layouts; `copies` lowers copies of tiles to each work-item's share then.

The fragments of a kernel fall into parts; each is held by the first `Strategy` that suits it: by
`wgmma` and `mma_sync` as the device's matrix units want it, by `micro_kernel` as tiles of vectors
for a work-item that has a CPU's core to itself, by `registers` as a share of the matrix in every
work-item of the scope. Those of matrix units share `accumulators`, the others `by_elements`. A
pipeline goes by `rotation`, `warp_specialisation` or `prefetching`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from portable.backend import Capabilities
from portable.errors import UnsupportedError
from portable.lang.ir import statements as s
from portable.lang.ir.expressions import Const
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.pipeline import Pipeline
from portable.lang.ir.types import Array, Fragment
from portable.lang.ir.walks import map_block
from portable.lang.tiles.copies import lower_copies
from portable.lang.tiles.micro_kernel import Micro
from portable.lang.tiles.mma_sync import MmaSync
from portable.lang.tiles.registers import Registers
from portable.lang.tiles.strategy import Strategy, parts_of
from portable.lang.tiles.wgmma import Wgmma
from portable.lang.tiles.work import Work, substitute

__all__ = ["lower", "lower_matrices"]

_STRATEGIES: Final[tuple[type[Strategy], ...]] = (Wgmma, MmaSync, Micro, Registers)


def lower(kernel: Kernel, capabilities: Capabilities) -> Kernel:
    """The kernel in terms of what one device has."""
    return lower_copies(lower_matrices(kernel, capabilities), capabilities)


def lower_matrices(kernel: Kernel, capabilities: Capabilities) -> Kernel:
    """The kernel without fragments: arrays, loops and vectors in their place.

    Raises
    ------
    UnsupportedError
        For a scope that the workgroup cannot be split into, and parts of numbers without
        instructions for them.
    """
    if not kernel.fragments:
        return kernel
    work = Work(kernel, capabilities)
    holders: dict[Fragment, Strategy] = {}
    tiles: dict[Array, Strategy] = {}
    top: s.Block = ()
    for part in parts_of(kernel.fragments, kernel.body):
        kind = next(x for x in _STRATEGIES if x.suits(work, part))
        if kind is not Wgmma and any(x.split == "given" for x in part.fragments):
            raise UnsupportedError('split="given": no instructions of warpgroups multiply parts')
        strategy = kind(work, part)
        top += strategy.declare()
        holders.update(dict.fromkeys(part.fragments, strategy))
        tiles.update(dict.fromkeys(part.tiles, strategy))
    body = tuple(y for x in kernel.body for y in _loop_over_tiles(x, holders))
    body = map_block(body, lambda x: _pipeline(x, holders))
    body = top + map_block(body, lambda x: _lowered(x, holders, tiles))
    for kind in _STRATEGIES:
        if made := [x for x in dict.fromkeys(holders.values()) if type(x) is kind]:
            body = kind.finish(body, made)
    kept = (work.current(a) for a in kernel.arrays if a not in work.retired)
    return replace(
        kernel,
        arrays=(*kept, *work.arrays),
        variables=(*kernel.variables, *work.variables),
        fragments=(),
        body=substitute(body, work.replaced),
    )


def _loop_over_tiles(x: s.Statement, holders: dict[Fragment, Strategy]) -> s.Block:
    """A loop around a pipeline, as the holder of its sums wants it."""
    pipelines = [y for y in x.body if isinstance(y, Pipeline)] if isinstance(x, s.For) else []
    if len(pipelines) != 1:
        return (x,)
    assert isinstance(x, s.For)
    block = holders[pipelines[0].multiply.accumulator].loop_over_tiles(x)
    return (x,) if block is None else block


def _pipeline(x: s.Statement, holders: dict[Fragment, Strategy]) -> s.Block:
    """A pipeline as the holder of its sums wants it."""
    return holders[x.multiply.accumulator].pipeline(x) if isinstance(x, Pipeline) else (x,)


def _zeros(x: s.Multiply) -> s.FragmentFill:
    """What a product that begins anew needs of those that add to sums alone."""
    return s.FragmentFill(x.accumulator, Const(0, x.accumulator.dtype), x.loc)


def _lowered(
    x: s.Statement, holders: dict[Fragment, Strategy], tiles: dict[Array, Strategy]
) -> s.Block:
    match x:
        case s.FragmentFill():
            return holders[x.fragment].fill(x)
        case s.FragmentLoad():
            return holders[x.fragment].load(x)
        case s.FragmentStore():
            return holders[x.fragment].store(x)
        case s.Multiply():
            holder = holders[x.accumulator]
            begun = holder.fill(_zeros(x)) if x.anew and not holder.begins else ()
            return begun + holder.multiply(x)
        case s.ForElements():
            return holders[x.fragment].elements(x)
        case s.CopyTile() if x.target.array in tiles:
            block = tiles[x.target.array].copy(x)
            return (x,) if block is None else block
        case _:
            return (x,)
