"""Matrix instructions of a warp: products, loads of their operands, and trades between lanes.

After the pictures in the PTX manual, "Matrix Fragments for mma.m16n8k16" and the like.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from portable.dtypes import DType, bfloat16, dtype, float16
from portable.lang.ir import statements as s
from portable.sim import report
from portable.sim.control import assign
from portable.sim.instructions import instruction, worked_out
from portable.sim.memory import Access, locate, read, write
from portable.sim.steps import Builder, Plain, Step
from portable.sim.touches import Site
from portable.sim.values import Value
from portable.sim.workgroup import Workgroup

WARP: Final = 32
_LANE: Final = np.arange(WARP)
_GROUP, _MEMBER = _LANE >> 2, _LANE & 3
_TF32: Final = np.uint32(0xFFFFE000)
"""The bits that matrix units see of single-precision factors."""
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


@instruction("mma.f16")
def _(statement: s.Instruction, b: Builder) -> Step:
    return worked_out(statement, b, WARP, partial(_mma_halves, float16))


@instruction("mma.bf16")
def _(statement: s.Instruction, b: Builder) -> Step:
    return worked_out(statement, b, WARP, partial(_mma_halves, bfloat16))


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
    high = (whole.view(np.uint32) + np.uint32(0x1000)) & _TF32
    with np.errstate(invalid="ignore"):
        low = whole - high.view(np.float32)
    return [high, low.view(np.uint32)]


@instruction("mma.tf32")
def _(statement: s.Instruction, b: Builder) -> Step:
    return worked_out(statement, b, WARP, _mma_tf32)


def _mma_tf32(c: list[Value], x: list[Value]) -> list[Value]:
    warps = c[0].size // WARP
    a, b = np.zeros((warps, 16, 8), np.float32), np.zeros((warps, 8, 8), np.float32)
    values = [_warps((np.ascontiguousarray(r) & _TF32).view(np.float32)) for r in x]
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
    count, turned = len(statement.outputs), statement.name.endswith("trans")

    def run(w: Workgroup) -> None:
        w.meet_sub_groups(site, statement.name, WARP)
        used = w.active.ids[w.active.ids % WARP < _ROW * count]
        rows = np.zeros((w.size, _ROW), array.dtype.numpy)
        access = _rows(w, site, [p(w) for p in places], used, axis)
        rows[used] = read(w, access).reshape(-1, _ROW)
        for number, variable in enumerate(statement.outputs):
            matrices = rows.reshape(-1, WARP, _ROW)[:, _ROW * number : _ROW * number + _ROW]
            held = matrices.transpose(0, 2, 1) if turned else matrices
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
