"""Random kernels of floats, smooth but for their branches, and what to differentiate them by."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import numpy as np

ITEMS: Final = 12
WORKGROUP: Final = 4
_COLUMNS: Final = 3
_HEAD: Final = """from portable import kernel
from portable import lang as kl


def helper(x, y):
    if x > y:
        return x * kl.cos(y)
    return x + 0.5 * y


@kernel
def kernel(p, n, x, y, w, z, s, o):
    i = kl.global_id(0)
    l = kl.local_id(0)
    tile = kl.local(4, x.dtype)
    q = kl.private(3, x.dtype, fill=0)
    a = x[i] * p
    b = w[i]
    c = y[i, 0] - 0.25
"""
_TAIL: Final = """    x[i] = a * b + c * q[1]
"""


def adjoint_arguments() -> list[Any]:
    """A number, a count, an element and a row for each work-item, neighbours, sums, parameters."""
    rng = np.random.default_rng(5)
    x, w = rng.uniform(-0.9, 0.9, ITEMS), rng.uniform(-0.9, 0.9, ITEMS + 6)
    y, z = rng.uniform(-0.9, 0.9, (ITEMS, _COLUMNS)), rng.uniform(-0.9, 0.9, _COLUMNS)
    return [0.7, 2, x, y, w, z, rng.uniform(-0.9, 0.9, 3), np.zeros(ITEMS)]


def random_adjoint(random: Random, *, shuffles: bool = False) -> str:
    """A module with ``kernel``, for `ITEMS` work-items in workgroups of `WORKGROUP`.

    Parameters
    ----------
    random : Random
    shuffles : bool
        Whether sub-groups exchange numbers in it.
    """
    return _Text(random, shuffles=shuffles).whole()


class _Text:
    def __init__(self, random: Random, *, shuffles: bool) -> None:
        self._random = random
        self._shuffles = shuffles
        self._meets = shuffles or random.random() < 0.4
        self._only_reads = not self._meets and random.random() < 0.4
        self._loops: list[str] = []
        self._count = 0

    def whole(self) -> str:
        """The text."""
        lines = self._block(1, self._random.randint(2, 4), uniform=True)
        if self._shuffles:
            lines = [self._shuffled(1), *lines, self._shuffled(1)]
        used = "tile" in "".join(lines)
        head = _HEAD if used else _HEAD.replace("    tile = kl.local(4, x.dtype)\n", "")
        return (
            head
            + "".join(lines)
            + (_TAIL.replace("x[i] =", "o[i] =") if self._only_reads else _TAIL)
        )

    def _block(self, depth: int, count: int, *, uniform: bool = False) -> list[str]:
        out: list[str] = []
        for _ in range(count):
            out += self._statement(depth, uniform)
        return out

    def _statement(self, depth: int, uniform: bool) -> list[str]:
        pad, random = "    " * depth, self._random
        if self._shuffles and uniform and random.random() < 0.3:
            return [self._shuffled(depth)]
        kind = random.random()
        if kind < 0.3 or depth > 3:
            return [f"{pad}{self._target()} {random.choice(('=', '=', '+='))} {self._bounded()}\n"]
        if kind < 0.46 and self._only_reads:
            return [f"{pad}o[i] = {self._bounded()}\n"]
        if kind < 0.38:
            return [f"{pad}kl.atomic_add(z, {self._index()}, {self._bounded()})\n"]
        if kind < 0.46:
            return [f"{pad}{random.choice(('x[i]', f'y[i, {self._index()}]'))} *= {self._sum()}\n"]
        if kind < 0.62:
            return self._if(depth)
        if kind < 0.82:
            return self._for(depth, uniform)
        if kind < 0.9:
            return self._while(depth)
        if self._meets and uniform:
            lane = random.choice(("(l + 1) % 4", "3 - l", "0", "l ^ 1"))
            return [
                f"{pad}tile[l] = {self._bounded()}\n",
                f"{pad}kl.barrier()\n",
                f"{pad}{random.choice('abc')} = {self._sum()} * tile[{lane}]\n",
                f"{pad}kl.barrier()\n",
            ]
        return self._jump(depth)

    def _shuffled(self, depth: int) -> str:
        word = self._random.choice((
            "reduce_add({})", "reduce_max({})", "scan_add({})", "shuffle_xor({}, 1)",
            "shuffle_xor({}, 2)", "shuffle_up({}, 1)", "shuffle_down({}, 1)", "broadcast({}, 0)",
        ))  # fmt: skip
        value = f"kl.sub_group_{word.format(self._bounded())}"
        return f"{'    ' * depth}{self._random.choice('abc')} = {self._sum()} * {value}\n"

    def _if(self, depth: int) -> list[str]:
        pad = "    " * depth
        out = [f"{pad}if {self._condition()}:\n", *self._block(depth + 1, 2)]
        if self._random.random() < 0.5:
            out += [f"{pad}else:\n", *self._block(depth + 1, 1)]
        return out

    def _for(self, depth: int, uniform: bool) -> list[str]:
        pad, random = "    " * depth, self._random
        name = f"j{self._count}"
        self._count += 1
        same = ("3", "n", "2, -1, -1", "0, 5, 2", "n - 2")
        ranges = same if uniform else (*same, "i % 4", "i % 3, 4", "3, i % 3, -1")
        self._loops.append(name)
        together = uniform and self._meets
        body = self._block(depth + 1, random.randint(1, 3), uniform=together)
        self._loops.pop()
        return [f"{pad}for {name} in range({random.choice(ranges)}):\n", *body]

    def _while(self, depth: int) -> list[str]:
        pad, name = "    " * depth, f"t{self._count}"
        self._count += 1
        self._loops.append(name)
        body = self._block(depth + 1, 2)
        self._loops.pop()
        return [
            f"{pad}{name} = 0\n",
            f"{pad}while {name} < {self._random.choice(('i % 3', '2', 'n'))}:\n",
            f"{pad}    {name} += 1\n",
            *body,
        ]

    def _jump(self, depth: int) -> list[str]:
        pad, random = "    " * depth, self._random
        words = [] if self._meets else ["return"]
        words += ["break", "continue"] if self._loops and not self._meets else []
        if not words:
            return [f"{pad}{self._target()} = {self._bounded()}\n"]
        word = random.choice(words)
        place = "o[i]" if self._only_reads else "x[i]"
        before = f"{pad}    {place} = {self._bounded()}\n" if random.random() < 0.5 else ""
        return [f"{pad}if {self._condition()}:\n{before}{pad}    {word}\n"]

    # -- expressions -----------------------------------------------------------------------

    def _target(self) -> str:
        places = ("a", "b", "c", "a", "b", "x[i]", f"y[i, {self._index()}]", f"q[{self._index()}]")
        if self._only_reads:
            places = ("a", "b", "c", "a", "b", f"q[{self._index()}]")
        return self._random.choice(places)

    def _index(self) -> str:
        choices = ["0", "1", "2", "i % 3", "(i + 1) % 3"]
        choices += [f"({name} + i) % 3" for name in self._loops]
        return self._random.choice(choices)

    def _condition(self) -> str:
        number = self._random.choice(["i", *self._loops])
        return self._random.choice(
            (f"({number} + i) % 3 == 1", f"{number} % 2 == 0", "a > b", f"{self._leaf()} > 0.1")
        )

    def _leaf(self) -> str:
        random = self._random
        shift = random.randint(0, 5)
        leaves = ("a", "b", "c", "p", "x[i]", f"y[i, {self._index()}]", f"q[{self._index()}]")
        wrapped = f"w[(i + {shift}) % {ITEMS}]"
        near = f"w[i + {shift}]" if self._only_reads or random.random() < 0.5 else wrapped
        others = (near, f"{random.uniform(-1, 1):.2f}", f"s[{random.randint(0, 2)}]", near)
        return random.choice((*leaves, *others, "a", "b"))

    def _sum(self) -> str:
        return f"({self._leaf()} + {self._leaf()} * {self._leaf()})"

    def _bounded(self) -> str:
        x, random = self._expression(self._random.randint(1, 3)), self._random
        return random.choice((f"kl.tanh({x})", f"0.5 * kl.sin({x})", f"0.4 * ({x})", x))

    def _expression(self, depth: int) -> str:
        if depth == 0:
            return self._leaf()
        x, y = self._expression(depth - 1), self._expression(depth - 1)
        return self._random.choice((
            f"({x} + {y})", f"({x} - {y})", f"({x} * {y})", f"({x} * {y})",
            f"kl.sin({x})", f"kl.exp(-({x}) ** 2)", f"kl.sqrt(1.5 + ({x}) ** 2)",
            f"({x} / (1 + ({y}) ** 2))", f"kl.where({self._condition()}, {x}, {y})",
            f"kl.maximum({x}, {y})", f"helper({x}, {y})", f"kl.atan2({x}, 1.5 + kl.abs({y}))",
        ))  # fmt: skip
