"""Instructions of warpgroups, which multiply tiles in local memory that descriptors stand for.

After the PTX manual, "Asynchronous Warpgroup Level Matrix Shared Memory Layout".
"""

from __future__ import annotations

from typing import Final

import numpy as np

from portable.lang.ir import statements as s
from portable.lang.ir.types import Array
from portable.sim import report
from portable.sim.control import assign
from portable.sim.instructions import instruction, worked_out
from portable.sim.memory import Access, indexed
from portable.sim.products import Product
from portable.sim.steps import Builder, Plain, Step
from portable.sim.threads import WARPGROUP
from portable.sim.touches import Site
from portable.sim.values import Value
from portable.sim.workgroup import Workgroup

_DEPTH: Final = 32
"""Bytes of an operand along the sum that an instruction takes."""


@instruction("set")
def _(statement: s.Instruction, b: Builder) -> Step:
    return worked_out(statement, b, 1, lambda c, x: [np.zeros_like(c[0])])


@instruction("changed")
def _(statement: s.Instruction, b: Builder) -> Step:
    """Work-items go on with a register that multiplications have changed."""
    site, (register,) = b.site(statement.loc), statement.outputs

    def run(w: Workgroup) -> None:
        if w.settings.copies and any(w.products.under_way(x, register.name) for x in _present(w)):
            raise report.product_under_way(w, site)

    return Plain(run)


@instruction("wgmma.fence")
def _(statement: s.Instruction, b: Builder) -> Step:
    site = b.site(statement.loc)

    def run(w: Workgroup) -> None:
        _meet(w, site, statement.name)
        for warpgroup in _present(w):
            w.products.fence(warpgroup)

    return Plain(run)


def _meet(w: Workgroup, site: Site, what: str) -> None:
    """All work-items of each warpgroup that is here at all, and it is a whole one."""
    w.meet_sub_groups(site, what, WARPGROUP)
    whole = w.size // WARPGROUP * WARPGROUP
    if w.settings.divergence and (w.active.ids >= whole).any():
        raise report.incomplete_warpgroup(w, site, what, w.size - whole)


def _present(w: Workgroup) -> list[int]:
    """The warpgroups that are here."""
    groups: list[int] = np.unique(w.active.ids // WARPGROUP).tolist()
    return groups


@instruction("wgmma.commit")
def _(statement: s.Instruction, b: Builder) -> Step:
    site = b.site(statement.loc)

    def run(w: Workgroup) -> None:
        _meet(w, site, statement.name)
        for warpgroup in _present(w):
            w.products.commit(warpgroup)

    return Plain(run)


@instruction("wgmma.wait")
def _(statement: s.Instruction, b: Builder) -> Step:
    site = b.site(statement.loc)
    last = statement.name.rpartition(".")[2]
    pending = int(last) if last.isdecimal() else 0

    def run(w: Workgroup) -> None:
        _meet(w, site, statement.name)
        for warpgroup in _present(w):
            w.products.wait(w, warpgroup, pending)

    return Plain(run)


@instruction("wgmma.descriptor")
def _(statement: s.Instruction, b: Builder) -> Step:
    ((array, index),) = statement.addresses
    site = b.site(statement.loc, array)
    places, (constant,) = b.expressions(index, site), b.expressions(statement.inputs, site)
    (variable,) = statement.outputs

    def run(w: Workgroup) -> None:
        offsets = w.buffers[array].elements(tuple(p(w).astype(np.int64) for p in places))
        address = offsets * array.dtype.itemsize + w.launch.survey.addresses[array]
        field = (np.broadcast_to(address, (w.size,)).astype(np.uint64) & 0x3FFFF) >> 4
        assign(w, variable.name, field | constant(w).astype(np.uint64))

    return Plain(run)


class _Tiles:
    """The local arrays that descriptors may stand for."""

    def __init__(self, statement: s.Instruction, b: Builder) -> None:
        arrays = [a for a in b.kernel.arrays if a.space == "local"]
        self._sites: dict[Array, Site] = {a: b.site(statement.loc, a) for a in arrays}

    def access(self, w: Workgroup, descriptor: int, outer: int, turned: bool) -> Access:
        """The elements that a descriptor stands for, 32 bytes by outer, swizzled by 128 bytes."""
        assert descriptor >> 62 == 1
        start = (descriptor & 0x3FFF) << 4
        lead, stride = (descriptor >> 16 & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
        bases = w.launch.survey.addresses
        array = max((a for a in bases if bases[a] <= start), key=lambda a: bases[a])
        buffer = w.buffers[array]
        size = buffer.data.itemsize
        row, k = np.indices((outer, _DEPTH // size)).reshape(2, -1)
        if turned:
            distance = row // 64 * lead + k // 8 * stride + k % 8 * 128 + row % 64 * 2
        else:
            distance = row // 8 * stride + row % 8 * 128 + k * size
        address = start + distance
        address = address ^ ((address >> 7 & 7) << 4)
        offsets = (address - bases[array]) // size
        index = indexed(buffer, offsets)
        return Access(self._sites[array], buffer, index, np.zeros_like(offsets), offsets, None)


@instruction("wgmma.tf32", "wgmma.f16", "wgmma.bf16", "wgmma.f8e4m3", "wgmma.f8e5m2", "wgmma.i8")
def _(statement: s.Instruction, b: Builder) -> Step:
    site, tiles = b.site(statement.loc), _Tiles(statement, b)
    inputs = b.expressions(statement.inputs, site)
    registers = tuple(v.name for v in statement.outputs)
    turned = [bool(b.constant(x)) for x in statement.inputs[2:]] or [False, False]
    extents = 64, 2 * len(registers)

    def run(w: Workgroup) -> None:
        _meet(w, site, statement.name)
        descriptors = [x(w) for x in inputs[:2]]
        for warpgroup in _present(w):
            left, right = (_same(w, site, x, warpgroup) for x in descriptors)
            a = tiles.access(w, left, extents[0], turned[0])
            b = tiles.access(w, right, extents[1], turned[1])
            w.products.add(w, warpgroup, Product(site, registers, (a, b)))

    return Plain(run)


def _same(w: Workgroup, site: Site, x: Value, warpgroup: int) -> int:
    """The descriptor that the work-items of a warpgroup give."""
    mine = x[warpgroup * WARPGROUP : (warpgroup + 1) * WARPGROUP]
    if (mine != mine[0]).any() and w.settings.uniform:
        expected = np.broadcast_to(x[w.active.ids[:1]], x[w.active.ids].shape)
        raise report.not_uniform(w, site, "a descriptor", x[w.active.ids], expected)
    return int(mine[0])
