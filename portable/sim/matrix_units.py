"""Matrix instructions of a warp: products, loads of their operands, and trades between lanes.

After the pictures in the PTX manual, "Matrix Fragments for mma.m16n8k16" and the like.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from portable.dtypes import DType, dtype
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array
from portable.sim import report
from portable.sim.clocks import WARPGROUP
from portable.sim.control import assign
from portable.sim.instructions import instruction, worked_out
from portable.sim.launch import Site
from portable.sim.memory import Access, indexed, locate, read, write
from portable.sim.products import TF32, Product
from portable.sim.steps import Builder, Plain, Step
from portable.sim.values import Value
from portable.sim.workgroup import Workgroup

# Instructions of warpgroups, which multiply tiles in local memory that descriptors stand for.
#
# After the PTX manual, "Asynchronous Warpgroup Level Matrix Shared Memory Layout".

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


def _of_warpgroups(
    statement: s.Instruction, b: Builder, act: Callable[[Workgroup, int], None]
) -> Step:
    """What each warpgroup that is here does, all of its work-items together."""
    site = b.site(statement.loc)

    def run(w: Workgroup) -> None:
        _meet(w, site, statement.name)
        for warpgroup in _present(w):
            act(w, warpgroup)

    return Plain(run)


@instruction("wgmma.fence")
def _(statement: s.Instruction, b: Builder) -> Step:
    return _of_warpgroups(statement, b, lambda w, warpgroup: w.products.fence(warpgroup))


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
    return _of_warpgroups(statement, b, lambda w, warpgroup: w.products.commit(warpgroup))


@instruction("wgmma.wait")
def _(statement: s.Instruction, b: Builder) -> Step:
    last = statement.name.rpartition(".")[2]
    pending = int(last) if last.isdecimal() else 0
    return _of_warpgroups(statement, b, lambda w, x: w.products.wait(w, x, pending))


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

    def access(self, w: Workgroup, descriptor: int, outer: int, transposed: bool) -> Access:
        """The elements that a descriptor stands for, 32 bytes by outer, swizzled by 128 bytes."""
        assert descriptor >> 62 == 1
        start = (descriptor & 0x3FFF) << 4
        lead, stride = (descriptor >> 16 & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
        bases = w.launch.survey.addresses
        array = max((a for a in bases if bases[a] <= start), key=lambda a: bases[a])
        buffer = w.buffers[array]
        size = buffer.data.itemsize
        row, k = np.indices((outer, _DEPTH // size)).reshape(2, -1)
        if transposed:
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
    transposed = [bool(b.constant(x)) for x in statement.inputs[2:]] or [False, False]
    extents = 64, 2 * len(registers)
    anew = statement.name.endswith(".anew")
    kinds = [v.type for v in statement.outputs] if anew else []

    def run(w: Workgroup) -> None:
        _meet(w, site, statement.name)
        for name, kind in zip(registers, kinds, strict=False):
            assert isinstance(kind, DType)
            assign(w, name, np.zeros(w.size, kind.numpy))
        descriptors = [x(w) for x in inputs[:2]]
        for warpgroup in _present(w):
            left, right = (_same(w, site, x, warpgroup) for x in descriptors)
            a = tiles.access(w, left, extents[0], transposed[0])
            b = tiles.access(w, right, extents[1], transposed[1])
            w.products.add(w, warpgroup, Product(site, registers, (a, b)))

    return Plain(run)


def _same(w: Workgroup, site: Site, x: Value, warpgroup: int) -> int:
    """The descriptor that the work-items of a warpgroup give."""
    mine = x[warpgroup * WARPGROUP : (warpgroup + 1) * WARPGROUP]
    if (mine != mine[0]).any() and w.settings.uniform:
        expected = np.broadcast_to(x[w.active.ids[:1]], x[w.active.ids].shape)
        raise report.not_uniform(w, site, "a descriptor", x[w.active.ids], expected)
    return int(mine[0])


# -- matrix units ----------------------------------------------------------------------------------

WARP: Final = 32
_LANE: Final = np.arange(WARP)
_GROUP, _MEMBER = _LANE >> 2, _LANE & 3
_ROW: Final = 8
"""Halves of a row of a small matrix: 16 bytes."""


# -- registers ------------------------------------------------------------------------------------


@instruction("pack")
def _(statement: s.Instruction, b: Builder) -> Step:
    kind = dtype(statement.name.rpartition(".")[2])
    return worked_out(statement, b, 1, lambda c, x: [_packed(x[0], x[1], kind)])


def _packed(low: Value, high: Value, kind: DType) -> Value:
    pair = np.stack([low, high], 1).astype(kind.numpy)
    return np.ascontiguousarray(pair).view(np.uint32)[:, 0]


@instruction("trade")
def _(statement: s.Instruction, b: Builder) -> Step:
    distance = int(statement.name.rpartition(".")[2])
    return worked_out(statement, b, WARP, lambda c, x: _traded(distance, c, x[0]))


def _traded(distance: int, c: list[Value], higher: Value) -> list[Value]:
    """Each pair of lanes: what one gives, its second register or its first, for the other's."""
    first, second = c
    given = np.where(higher != 0, first, second)
    got = given[np.arange(given.size) ^ distance]
    return [np.where(higher != 0, got, first), np.where(higher != 0, second, got)]


# -- products -------------------------------------------------------------------------------------


def _warps(x: Value) -> Value:
    """A value with a row per warp."""
    out: Value = x.reshape(-1, WARP)
    return out


def _halves(registers: list[Value], kind: DType) -> list[Value]:
    """The elements of packed registers, lowest first."""
    pairs = [np.ascontiguousarray(r).view(kind.numpy).reshape(-1, 2) for r in registers]
    return [_warps(pair[:, i].astype(np.float32)) for pair in pairs for i in (0, 1)]


@instruction("mma.f16", "mma.bf16")
def _(statement: s.Instruction, b: Builder) -> Step:
    kind = dtype(statement.name.split(".")[1])
    return worked_out(statement, b, WARP, partial(_mma_halves, kind))


def _mma_halves(kind: DType, c: list[Value], x: list[Value]) -> list[Value]:
    warps = c[0].size // WARP
    a, b = np.zeros((warps, 16, 16), np.float32), np.zeros((warps, 16, 8), np.float32)
    for i, value in enumerate(_halves(x[:4], kind)):
        row = _GROUP + (0 if i in (0, 1, 4, 5) else 8)
        a[:, row, _MEMBER * 2 + (i & 1) + (8 if i >= 4 else 0)] = value
    for i, value in enumerate(_halves(x[4:], kind)):
        b[:, _MEMBER * 2 + (i & 1) + (8 if i >= 2 else 0), _GROUP] = value
    return _added(c, a @ b)


@instruction("split.tf32")
def _(statement: s.Instruction, b: Builder) -> Step:
    return worked_out(statement, b, 1, lambda c, x: _split(x[0]))


def _split(x: Value) -> list[Value]:
    """The first 11 bits, rounded, and what is left."""
    whole = np.ascontiguousarray(x, np.float32)
    high = (whole.view(np.uint32) + np.uint32(0x1000)) & TF32
    with np.errstate(invalid="ignore"):
        low = whole - high.view(np.float32)
    return [high, low.view(np.uint32)]


@instruction("mma.tf32")
def _(statement: s.Instruction, b: Builder) -> Step:
    return worked_out(statement, b, WARP, _mma_tf32)


def _mma_tf32(c: list[Value], x: list[Value]) -> list[Value]:
    warps = c[0].size // WARP
    a, b = np.zeros((warps, 16, 8), np.float32), np.zeros((warps, 8, 8), np.float32)
    values = [_warps((np.ascontiguousarray(r) & TF32).view(np.float32)) for r in x]
    for i, value in enumerate(values[:4]):
        a[:, _GROUP + 8 * (i & 1), _MEMBER + 4 * (i >> 1)] = value
    for i, value in enumerate(values[4:]):
        b[:, _MEMBER + 4 * i, _GROUP] = value
    return _added(c, a @ b)


@instruction("mma.f64")
def _(statement: s.Instruction, b: Builder) -> Step:
    rows = 16 if "m16" in statement.name else 8
    depth = int(statement.name.rpartition("k")[2])
    return worked_out(statement, b, WARP, partial(_mma_f64, rows, depth))


def _mma_f64(rows: int, depth: int, c: list[Value], x: list[Value]) -> list[Value]:
    warps, down, deep = c[0].size // WARP, rows // 8, depth // 4
    a, b = np.zeros((warps, rows, depth)), np.zeros((warps, depth, 8))
    for i, value in enumerate(x[:-deep]):
        a[:, _GROUP + 8 * (i % down), _MEMBER + 4 * (i // down)] = _warps(value)
    for i, value in enumerate(x[-deep:]):
        b[:, _MEMBER + 4 * i, _GROUP] = _warps(value)
    return _added(c, a @ b)


def _added(c: list[Value], product: Value) -> list[Value]:
    return [
        old + product[:, _GROUP + 8 * (i >> 1), _MEMBER * 2 + (i & 1)].reshape(-1)
        for i, old in enumerate(c)
    ]


# -- memory ---------------------------------------------------------------------------------------


def _rows(w: Workgroup, site: Site, index: list[Value], items: Value, axis: int) -> Access:
    """The 16 bytes, 8 halves along an axis, that begin where each of the work-items says."""
    wide = [np.repeat(i[items].astype(np.int64), _ROW) for i in index]
    wide[axis] = wide[axis] + np.tile(np.arange(_ROW), items.size)
    access = locate(w, site, tuple(wide), np.repeat(items, _ROW))
    if access.kept is None:
        first = access.offsets.reshape(-1, _ROW)
        apart = (first != first[:, :1] + np.arange(_ROW)).any(axis=1) | (first[:, 0] % _ROW != 0)
        if apart.any() and w.settings.copies:
            raise report.no_row(w, access, int(np.flatnonzero(apart)[0]) * _ROW)
    return access


@instruction("ldmatrix")
def _(statement: s.Instruction, b: Builder) -> Step:
    """Every 8 lanes give the rows of an 8 x 8 matrix of halves, of which each gets two."""
    ((array, index),) = statement.addresses
    site = b.site(statement.loc, array)
    places = b.expressions(index, site)
    assert array.layout is not None
    axis = array.layout.strides.index(1)
    count, transposed = len(statement.outputs), statement.name.endswith("trans")

    def run(w: Workgroup) -> None:
        w.meet_sub_groups(site, statement.name, WARP)
        used = w.active.ids[w.active.ids % WARP < _ROW * count]
        rows = np.zeros((w.size, _ROW), array.dtype.numpy)
        access = _rows(w, site, [p(w) for p in places], used, axis)
        rows[used] = read(w, access).reshape(-1, _ROW)
        for number, variable in enumerate(statement.outputs):
            matrices = rows.reshape(-1, WARP, _ROW)[:, _ROW * number : _ROW * number + _ROW]
            held = matrices.transpose(0, 2, 1) if transposed else matrices
            pairs = held[:, _GROUP[:, None], _MEMBER[:, None] * 2 + np.arange(2)]
            packed = np.ascontiguousarray(pairs).view(np.uint32).reshape(-1)
            assign(w, variable.name, packed)

    return Plain(run)


@instruction("store.v4.b32")
def _(statement: s.Instruction, b: Builder) -> Step:
    """Four words, which are eight halves."""
    ((array, index),) = statement.addresses
    site = b.site(statement.loc, array)
    places, inputs = b.expressions(index, site), b.expressions(statement.inputs, site)

    def run(w: Workgroup) -> None:
        words = np.stack([w.active.pick(x(w)) for x in inputs], 1)
        axis = array.strides.index("unit")
        access = _rows(w, site, [p(w) for p in places], w.active.ids, axis)
        write(w, access, np.ascontiguousarray(words).view(array.dtype.numpy).reshape(-1))

    return Plain(run)
