"""NVIDIA's matrix instructions on the simulator, after the pictures in the PTX manual.

Written from the manual alone, and knowing nothing of the tables by which kernels are lowered: a
kernel that comes out right here holds, loads and multiplies each element where the hardware does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from portable import sim
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array
from portable.lang.ir.walk import map_block
from portable.sim.control import assign
from portable.sim.memory import locate, read, write
from portable.sim.steps import Builder, Plain, Step, step
from portable.sim.workgroup import Workgroup

__all__ = ["run_on_warps"]

_LANE = np.arange(32)
_GROUP, _MEMBER = _LANE >> 2, _LANE & 3


@dataclass(frozen=True, slots=True)
class _Emulated(s.Instruction):
    """An instruction that this module runs."""


def run_on_warps(kernel: Kernel, groups: Sequence[int], arguments: Sequence[Any]) -> None:
    """Simulates a kernel whose fragments have been lowered, its copies not yet."""

    def emulated(x: s.Statement) -> s.Block:
        if not isinstance(x, s.Instruction):
            return (x,)
        return (_Emulated(x.name, x.outputs, x.inputs, x.addresses, x.loc),)

    x, y, z = groups
    sim.run(replace(kernel, body=map_block(kernel.body, emulated)), (x, y, z), arguments)


@step.register
def _(statement: _Emulated, b: Builder) -> Step:
    name = statement.name
    if name.startswith("ldmatrix"):
        return _ldmatrix(statement, b)
    if name == "wgmma.descriptor":
        return _descriptor(statement, b)
    if name == "store.v4.b32":
        return _store(statement, b)
    if name in ("mbarrier.arrive.copied", "mbarrier.arrive.expecting"):
        return Plain(_copied)
    sites = b.site(statement.loc)
    inputs = b.expressions(statement.inputs, sites)
    outputs = tuple(v.name for v in statement.outputs)
    run = _meaning(name)
    if run is None:
        return Plain(lambda w: None)

    def execute(w: Workgroup) -> None:
        w.meet(sites, name)
        found = run(w, [w.env[v] for v in outputs], [i(w) for i in inputs])
        for variable, value in zip(outputs, found, strict=True):
            assign(w, variable, value)

    return Plain(execute)


def _copied(w: Workgroup) -> None:
    """Ends the copies that the arrival would follow."""
    w.copies.commit(w.active.ids)
    w.copies.wait(w, w.active.ids, 0)


_SILENT = frozenset(
    {
        "changed.f32",
        "mbarrier.arrive",
        "mbarrier.init.many",
        "mbarrier.init_fence",
        "mbarrier.wait",
        "proxy.fence",
        "wgmma.commit",
        "wgmma.fence",
        "wgmma.wait",
        "wgmma.wait.1",
    }
)
"""What orders instructions that this module runs in their order anyway."""

_Meaning = Callable[[Workgroup, list[Any], list[Any]], list[Any]]


def _meaning(name: str) -> _Meaning | None:
    if name.startswith("mma.f16"):
        return lambda w, c, x: _per_warp(_mma_f16, c, x)
    if name.startswith("mma.f64"):
        rows = 16 if "m16" in name else 8
        return lambda w, c, x: _per_warp(lambda d, y: _mma_f64(rows, d, y), c, x)
    if name.startswith("wgmma.f16"):
        return _wgmma
    if name.startswith("trade."):
        return lambda w, c, x: _traded(int(name[-1]), c, x[0])
    if name == "set.f32":
        return lambda w, c, x: [np.zeros_like(c[0])]
    if name == "pack.f16":
        return lambda w, c, x: [_packed(x[0], x[1])]
    assert name in _SILENT
    return None


def _packed(low: Any, high: Any) -> Any:
    pair = np.stack([low, high], 1).astype(np.float16)
    return np.ascontiguousarray(pair).view(np.uint32)[:, 0]


def _traded(distance: int, c: list[Any], x: Any) -> list[Any]:
    """Each pair of lanes: the lower one's second register for the higher one's first."""
    first, second = c[0].copy(), c[1].copy()
    lower = np.flatnonzero(np.arange(first.size) & distance == 0)
    assert (np.broadcast_to(x, first.shape)[lower] == 0).all()
    assert (np.broadcast_to(x, first.shape)[lower + distance] == 1).all()
    second[lower], first[lower + distance] = c[0][lower + distance], c[1][lower]
    return [first, second]


def _halves(registers: list[Any]) -> list[Any]:
    """The elements of packed registers, lowest first."""
    pairs = [np.ascontiguousarray(r).view(np.float16).reshape(-1, 2) for r in registers]
    return [pair[:, i].astype(np.float32) for pair in pairs for i in (0, 1)]


def _per_warp(one: Callable[[list[Any], list[Any]], list[Any]], c: list[Any], x: list[Any]) -> Any:
    out = [value.copy() for value in c]
    for first in range(0, out[0].size, 32):
        warp = slice(first, first + 32)
        found = one([v[warp] for v in c], [v[warp] for v in x])
        for total, value in zip(out, found, strict=True):
            total[warp] = value
    return out


def _mma_f16(c: list[Any], x: list[Any]) -> list[Any]:
    a, b = np.zeros((16, 16), np.float32), np.zeros((16, 8), np.float32)
    for i, value in enumerate(_halves(x[:4])):
        row = _GROUP + (0 if i in (0, 1, 4, 5) else 8)
        a[row, _MEMBER * 2 + (i & 1) + (8 if i >= 4 else 0)] = value
    for i, value in enumerate(_halves(x[4:])):
        b[_MEMBER * 2 + (i & 1) + (8 if i >= 2 else 0), _GROUP] = value
    return _added(c, a @ b)


def _mma_f64(rows: int, c: list[Any], x: list[Any]) -> list[Any]:
    a, b = np.zeros((rows, 4)), np.zeros((4, 8))
    for i, value in enumerate(x[:-1]):
        a[_GROUP + 8 * i, _MEMBER] = value
    b[_MEMBER, _GROUP] = x[-1]
    return _added(c, a @ b)


def _added(c: list[Any], product: Any) -> list[Any]:
    return [old + product[_GROUP + 8 * (i >> 1), _MEMBER * 2 + (i & 1)] for i, old in enumerate(c)]


# -- ldmatrix ---------------------------------------------------------------------------------


def _ldmatrix(statement: _Emulated, b: Builder) -> Step:
    ((array, index),) = statement.addresses
    site = b.site(statement.loc, array)
    places = b.expressions(index, site)
    assert array.layout is not None
    axis = array.layout.strides.index(1)
    count, turned = len(statement.outputs), statement.name.endswith("trans")

    def run(w: Workgroup) -> None:
        w.meet(site, statement.name)
        rows = _rows(w, site, [p(w) for p in places], axis)
        for number, variable in enumerate(statement.outputs):
            matrices = rows.reshape(-1, 32, 8)[:, 8 * number : 8 * number + 8]
            held = matrices.transpose(0, 2, 1) if turned else matrices
            pairs = held[:, _GROUP[:, None], _MEMBER[:, None] * 2 + np.arange(2)]
            packed = np.ascontiguousarray(pairs).view(np.uint32).reshape(-1)
            assign(w, variable.name, packed)

    def _rows(w: Workgroup, site: Any, index: list[Any], axis: int) -> Any:
        """Of every lane whose address counts the 8 halves from it on."""
        out = np.zeros((w.size, 8), np.float16)
        used = np.flatnonzero(np.arange(w.size) % 32 < 8 * count)
        wide = [np.repeat(np.asarray(i)[used].astype(np.int64), 8) for i in index]
        wide[axis] = wide[axis] + np.tile(np.arange(8), used.size)
        access = locate(w, site, tuple(wide), np.repeat(used, 8))
        first = access.offsets.reshape(-1, 8)
        assert (first[:, 0] % 8 == 0).all()
        assert (first == first[:, :1] + np.arange(8)).all()
        out[used] = read(w, access).reshape(-1, 8)
        return out

    return Plain(run)


# -- stores of 16 bytes -----------------------------------------------------------------------


def _store(statement: _Emulated, b: Builder) -> Step:
    ((array, index),) = statement.addresses
    site = b.site(statement.loc, array)
    places, inputs = b.expressions(index, site), b.expressions(statement.inputs, site)

    def run(w: Workgroup) -> None:
        words = np.stack([i(w) for i in inputs], 1)
        wide = [np.repeat(np.broadcast_to(p(w), (w.size,)).astype(np.int64), 8) for p in places]
        wide[-1] = wide[-1] + np.tile(np.arange(8), w.size)
        access = locate(w, site, tuple(wide), np.repeat(np.arange(w.size), 8))
        assert (access.offsets.reshape(-1, 8)[:, 0] % 8 == 0).all()
        write(w, access, np.ascontiguousarray(words).view(np.float16).reshape(-1))

    return Plain(run)


# -- wgmma ------------------------------------------------------------------------------------


def _bases(w: Workgroup) -> dict[Array, int]:
    """Addresses of the local arrays, each where a swizzle begins."""
    found, end = {}, 1024
    for array in w.kernel.arrays:
        if array.space == "local":
            found[array] = end
            end += -(-w.buffers[array].data.nbytes // 1024) * 1024
    return found


def _descriptor(statement: _Emulated, b: Builder) -> Step:
    ((array, index),) = statement.addresses
    site = b.site(statement.loc, array)
    places, constant = b.expressions(index, site), b.expressions(statement.inputs, site)[0]
    (variable,) = statement.outputs

    def run(w: Workgroup) -> None:
        wide = tuple(np.broadcast_to(np.asarray(p(w)), (w.size,)).astype(np.int64) for p in places)
        offsets = np.asarray(w.buffers[array].elements(wide)) * 2
        address = (offsets + _bases(w)[array]).astype(np.uint64)
        field = (address & np.uint64(0x3FFFF)) >> np.uint64(4)
        assign(w, variable.name, field | np.asarray(constant(w)).astype(np.uint64))

    return Plain(run)


def _operand(w: Workgroup, descriptor: int, outer: int, turned: bool) -> Any:
    """The (outer, 16) halves that a descriptor stands for, swizzled by 128 bytes."""
    assert descriptor >> 62 == 1
    start = (descriptor & 0x3FFF) << 4
    lead, stride = (descriptor >> 16 & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
    row, k = np.meshgrid(np.arange(outer), np.arange(16), indexing="ij")
    if turned:
        distance = row // 64 * lead + k // 8 * stride + k % 8 * 128 + row % 64 * 2
    else:
        distance = row // 8 * stride + row % 8 * 128 + k * 2
    address = start + distance
    address = address ^ ((address >> 7 & 7) << 4)
    array, base = max(
        ((a, base) for a, base in _bases(w).items() if base <= start), key=lambda x: x[1]
    )
    return w.buffers[array].data[(address - base) // 2].astype(np.float32)


def _wgmma(w: Workgroup, c: list[Any], x: list[Any]) -> list[Any]:
    out = [value.copy() for value in c]
    for first in range(0, w.size, 128):
        group = slice(first, first + 128)
        if not w.active.full and not w.active.mask[group].any():
            continue
        left, right = (np.unique(np.asarray(d)[group]) for d in x[:2])
        assert left.size == right.size == 1, "a warpgroup's descriptors differ"
        turned = [bool(np.asarray(t).flat[0]) for t in x[2:]]
        a = _operand(w, int(left[0]), 64, turned[0])
        b = _operand(w, int(right[0]), 2 * len(c), turned[1])
        product = a @ b.T
        warp, lane = np.divmod(np.arange(128), 32)
        for i, total in enumerate(out):
            row = 16 * warp + (lane >> 2) + 8 * (i // 2 % 2)
            total[group] += product[row, i // 4 * 8 + (lane & 3) * 2 + i % 2]
    return out
