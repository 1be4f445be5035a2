"""The text of random kernels that move and multiply tiles, and what they leave in NumPy's terms.

A kernel is a row of steps, each with an output of its own: tiles copied at once, asynchronously,
through a ring or in bulk, with edges, steps and transposition; products of fragments. Numbers are
small and whole, so that every sum is exact, whatever its order.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

import numpy as np

_TYPES: Final = ("f16", "f32", "f64", "i8", "u16", "i32", "u64")
_MULTIPLIED: Final = ("f16", "f32", "f64")
_NUMPY: Final = {"f": "float", "i": "int", "u": "uint"}

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Moves:
    """A kernel of one workgroup.

    Attributes
    ----------
    text : str
        The module, with ``kernel``.
    workgroup : tuple of int
        To launch.
    arrays : list of array
        The arguments.
    wanted : list of array
        What they should hold after.
    """

    text: str
    workgroup: tuple[int, ...]
    arrays: list[Array]
    wanted: list[Array]


def _dtype(kind: str) -> np.dtype[Any]:
    return np.dtype(_NUMPY[kind[0]] + kind[1:])


class _Writer:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.names: list[str] = []
        self.arrays: list[Array] = []
        self.wanted: list[Array] = []

    def array(self, start: Array, after: Array | None = None) -> str:
        """One more argument."""
        name = f"a{len(self.names)}"
        self.names.append(name)
        self.arrays.append(start)
        self.wanted.append(start if after is None else after)
        return name

    def whole(self, shape: tuple[int, ...], kind: str) -> Array:
        """Small whole numbers."""
        low = 0 if kind[0] == "u" else -3
        numbers = [self.random.randint(low, 4) for _ in range(int(np.prod(shape)))]
        return np.array(numbers).reshape(shape).astype(_dtype(kind))

    def size(self, most: int) -> int:
        return self.random.choice([n for n in (1, 2, 3, 4, 5, 7, 8, 12, 16) if n <= most])

    # -- steps -------------------------------------------------------------------------------

    def tile(self) -> None:
        """A part of an array to local memory, with zeros for what lies outside, and out again."""
        kind, random = random_kind(self.random), self.random
        rows, columns = self.size(8), self.size(16)
        x = self.whole((self.size(12), self.size(16)), kind)
        top, left = random.randint(0, 3), random.randint(0, 3)
        part = np.zeros((rows, columns), x.dtype)
        inside = x[top : top + rows, left : left + columns]
        part[: inside.shape[0], : inside.shape[1]] = inside
        turned = random.randint(0, 1)
        wanted = part.T if turned else part
        source = self.array(x)
        target = self.array(np.full_like(wanted, 1), wanted.copy())
        tile = f"tile{len(self.names)}"
        self.lines += [
            f"{tile} = kl.local(({columns}, {rows}), kl.{kind})"
            if turned
            else f"{tile} = kl.local(({rows}, {columns}), kl.{kind})",
        ]
        here = f"{source}[{top} : {top + rows}, {left} : {left + columns}]"
        self.moved(f"{tile}.T" if turned else tile, here)
        self.lines.append("kl.barrier()")
        extents = (columns, rows) if turned else (rows, columns)
        self.moved(f"{target}[0:{extents[0]}, 0:{extents[1]}]", tile)

    def moved(self, target: str, source: str) -> None:
        """One copy, at once or not."""
        if self.random.randint(0, 1):
            self.lines.append(f"kl.copy({target}, {source})")
            return
        self.lines += [f"kl.copy_async({target}, {source})", "kl.copy_commit()", "kl.copy_wait()"]

    def ring(self) -> None:
        """Tiles of a row, summed while later ones are on their way."""
        kind = self.random.choice(("f32", "f64", "i32"))
        width, stages = self.size(16), self.random.choice((2, 3, 4))
        x = self.whole((self.random.randint(1, 60),), kind)
        tiles = -(-x.size // width)
        padded = np.concatenate([x, np.zeros(tiles * width - x.size, x.dtype)])
        total = padded.reshape(-1, width).sum(0).astype(x.dtype)
        source, target = self.array(x), self.array(np.zeros(width, x.dtype), total)
        ring = f"ring{len(self.names)}"
        ahead = f"{source}[at * {width} : at * {width} + {width}]"
        self.lines += [
            f"{ring} = kl.local(({stages}, {width}), kl.{kind})",
            f"for at in kl.static_range({stages - 1}):",
            f"    kl.copy_async({ring}[at], {ahead})",
            "    kl.copy_commit()",
            f"for t in range({tiles}):",
            f"    kl.copy_wait({stages - 2})",
            "    kl.barrier()",
            f"    at = t + {stages - 1}",
            f"    kl.copy_async({ring}[at % {stages}], {ahead})",
            "    kl.copy_commit()",
            f"    for k in range(kl.local_linear_id(), {width}, ITEMS):",
            f"        {target}[k] += {ring}[t % {stages}, k]",
            "kl.copy_wait(0)",
        ]

    def bulk(self) -> None:
        """Rows there and back by one work-item each time, doubled between."""
        kind = self.random.choice(("f32", "f16", "i32", "u64"))
        width, turns, slots = 16, self.random.randint(1, 4), self.random.choice((1, 2, 3))
        x = self.whole((turns * width,), kind)
        source, target = self.array(x), self.array(np.zeros_like(x), x * 2)
        tile, done = f"bulk{len(self.names)}", f"done{len(self.names)}"
        self.lines += [
            f"{tile} = kl.local(({slots}, {width}), kl.{kind})",
            f"{done} = kl.completion({slots})",
            f"for t in range({turns}):",
            f"    slot = t % {slots}",
            "    if kl.local_linear_id() == 0:",
            f"        start = t * {width}",
            f"        kl.bulk_copy({tile}, (slot, 0), {source}, start, {width}, {done}[slot])",
            f"    kl.bulk_wait({done}[slot], (t // {slots}) % 2)",
            f"    for k in range(kl.local_linear_id(), {width}, ITEMS):",
            f"        {tile}[slot, k] = {tile}[slot, k] * 2",
            "    kl.barrier()",
            "    if kl.local_linear_id() == 0:",
            f"        kl.bulk_copy({target}, t * {width}, {tile}, (slot, 0), {width})",
            "        kl.copy_commit()",
            "        kl.copy_wait(0)",
            "    kl.barrier()",
        ]

    def product(self) -> None:
        """A tile of a product, from tiles in local memory."""
        kind = self.random.choice(_MULTIPLIED)
        m, n, k = self.size(16), self.size(16), self.size(16)
        a, b = self.whole((m, k), kind), self.whole((k, n), kind)
        wide = np.float32 if kind == "f16" else a.dtype
        total = 2 * (a.astype(wide) @ b.astype(wide)) + 1
        one, other = self.array(a), self.array(b)
        target = self.array(np.zeros((m, n), wide), total.astype(wide))
        acc, left, right = (f"{word}{len(self.names)}" for word in ("acc", "left", "right"))
        scope = "workgroup"
        units = self.random.choice(("", ", units=False"))
        self.lines += [
            f"{left} = kl.local(({m}, {k}), kl.{kind})",
            f"{right} = kl.local(({k}, {n}), kl.{kind})",
            f"kl.copy({left}, {one}[0:{m}, 0:{k}])",
            f"kl.copy({right}, {other}[0:{k}, 0:{n}])",
            f"{acc} = kl.matrix(({m}, {n}), kl.accumulator(kl.{kind}), scope='{scope}'{units})",
            f"{acc}.fill(0.5)",
            "kl.barrier()",
            f"kl.mma({acc}, {left}, {right})",
        ]
        if self.random.randint(0, 1):
            self.lines += [f"{acc}.map(doubled)", f"{acc}.store({target}[0:{m}, 0:{n}])"]
        else:
            self.lines += [
                f"for row, column, value in kl.elements({acc}):",
                f"    {target}[row, column] = 2 * value",
            ]

    def kernel(self) -> str:
        """The module's text."""
        steps = (self.tile, self.tile, self.ring, self.bulk, self.product)
        for _ in range(self.random.randint(1, 3)):
            self.random.choice(steps)()
            self.lines.append("kl.barrier()")
        head = "import portable as pt\nfrom portable import lang as kl\n\n\n"
        head += "@pt.function\ndef doubled(x):\n    return 2 * x\n\n\n"
        signature = f"@pt.kernel(contract=False)\ndef kernel({', '.join(self.names)}):\n"
        items = "ITEMS = kl.local_size(0) * kl.local_size(1)"
        return head + signature + "\n".join(f"    {x}" for x in [items, *self.lines]) + "\n"


def random_kind(random: Random) -> str:
    """A type of elements in memory."""
    return random.choice(_TYPES)


def random_moves(random: Random) -> Moves:
    """A kernel of one workgroup, with its arguments."""
    writer = _Writer(random)
    text = writer.kernel()
    workgroup = random.choice(((8,), (32,), (8, 2), (1,)))
    return Moves(text, workgroup, writer.arrays, writer.wanted)
