"""The text of random kernels of branches and loops, in each other and around barriers.

Compilers that run the work-items of a workgroup in loops from one barrier to the next take such
kernels apart. There is little else in them, so that many are checked in a short time.
"""

from __future__ import annotations

from random import Random
from typing import Final

ITEMS: Final = 8
"""Work-items per workgroup."""
VALUES: Final = 4
"""Numbers that each work-item gives back."""
ROUNDS: Final = (3, 2)
"""What to launch with as the kernel's numbers, which bound its loops."""

_DEEPEST: Final = 2
_HEAD: Final = f'''import portable as pt
from portable import lang as kl


@pt.kernel
def kernel(x, out, n, m):
    """Generated."""
    i, lid = kl.global_id(0), kl.local_id(0)
    left = kl.local({ITEMS}, kl.i32)
    own = kl.private(3, kl.i32)
    own[0], own[1], own[2] = 1, lid, x[i]
    a, b, c = x[i], lid * 3, 0
'''
_TAIL: Final = """    out[i, 0] += a
    out[i, 1] += b
    out[i, 2] += c
    out[i, 3] += own[0] + 3 * own[1] + 5 * own[2]
"""


class _Control:
    """A text that grows by statements of one work-item ("alone") and of all ("together")."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = 0
        self.lines: list[str] = []

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _counter(self) -> str:
        self._names += 1
        return f"k{self._names}"

    def _number(self, deepest: int = 2) -> str:
        random = self._random
        if deepest == 0 or random.random() < 0.4:
            return random.choice(("a", "b", "c", "lid", "i", "n", "m", "5", "-3", "own[lid % 3]"))
        x, y = self._number(deepest - 1), self._number(deepest - 1)
        return random.choice((*(f"({x} {op} {y})" for op in "+-*^&"), f"max({x}, {y})"))

    def _condition(self) -> str:
        """One that work-items may differ in."""
        random = self._random
        plain = f"{self._number(1)} {random.choice(('<', '==', '!='))} {self._number(1)}"
        one = random.choice((plain, f"lid % {random.randint(2, 4)} == {random.randint(0, 1)}"))
        if random.random() < 0.25:
            return f"({one}) {random.choice(('and', 'or'))} ({self._condition()})"
        return one

    def _same(self, counters: list[str]) -> str:
        """A condition that is the same for all."""
        known = self._random.choice(("n", "m", *counters))
        return f"{known} {self._random.choice('<>')} {self._random.randint(0, 3)}"

    # -- of one work-item --------------------------------------------------------------------

    def _assigned(self, depth: int) -> None:
        target = self._random.choice(("a", "b", "c", "own[lid % 3]", "own[1]", "out[i, 0]"))
        op = self._random.choice(("=", "+=", "^="))
        self._line(depth, f"{target} {'+=' if 'out' in target else op} {self._number()}")

    def _alone(self, depth: int, nested: int) -> None:
        for _ in range(self._random.randint(1, 3)):
            pick = self._random.random()
            if pick < 0.55 or nested > _DEEPEST:
                self._assigned(depth)
            elif pick < 0.8:
                self._branch(depth, nested)
            else:
                self._rounds_alone(depth, nested)

    def _branch(self, depth: int, nested: int) -> None:
        self._line(depth, f"if {self._condition()}:")
        self._alone(depth + 1, nested + 1)
        if self._random.random() < 0.4:
            self._line(depth, "else:")
            self._alone(depth + 1, nested + 1)

    def _rounds_alone(self, depth: int, nested: int) -> None:
        name = self._counter()
        if self._random.random() < 0.5:
            self._line(depth, f"for {name} in range(lid % {self._random.randint(2, 4)}):")
        else:
            self._line(depth, f"{name} = lid % 3")
            self._line(depth, f"while {name} > 0:")
            self._line(depth + 1, f"{name} -= 1")
        self._alone(depth + 1, nested + 1)
        if self._random.random() < 0.2:
            self._line(depth + 1, f"if {self._condition()}:")
            self._line(depth + 2, self._random.choice(("break", "continue")))

    # -- of the workgroup --------------------------------------------------------------------

    def together(self, depth: int, nested: int, counters: list[str]) -> None:
        """Statements that all work-items come to, in a loop for each of the counters."""
        for _ in range(self._random.randint(1, 3)):
            pick = self._random.random()
            if pick < 0.15 or (pick > 0.6 and nested >= _DEEPEST):
                self._assigned(depth)
            elif pick < 0.35:
                self._meeting(depth)
            elif pick < 0.5:
                self._branch(depth, nested)
            elif pick < 0.6:
                self._rounds_alone(depth, nested)
            elif pick < 0.72:
                self._line(depth, f"if {self._same(counters)}:")
                self.together(depth + 1, nested + 1, counters)
            else:
                self._rounds(depth, nested, counters)

    def _meeting(self, depth: int) -> None:
        pick, target = self._random.randint(0, 2), self._random.choice("abc")
        if pick == 0:
            self._line(depth, "kl.barrier()")
        elif pick == 1:
            self._line(depth, f"{target} += kl.workgroup_uniform({self._number()})")
        else:
            self._line(depth, f"left[lid] = {self._number()}")
            self._line(depth, "kl.barrier()")
            other = self._random.randrange(1, ITEMS)
            self._line(depth, f"{target} = left[(lid + {other}) % {ITEMS}]")
            self._line(depth, "kl.barrier()")

    def _rounds(self, depth: int, nested: int, counters: list[str]) -> None:
        """A loop, left where it counts, asks all, or after barriers in the midst of a round."""
        name, pick = self._counter(), self._random.randint(0, 3)
        inside = [*counters, name]
        if pick == 0:
            self._line(depth, f"for {name} in range({self._random.choice('nm2')}):")
        else:
            self._line(depth, f"{name} = 0")
            asked = f" and kl.workgroup_uniform({self._number(1)} & 3) > 0" * (pick == 1)
            self._line(depth, "while True:" if pick == 3 else f"while {name} < n{asked}:")
            if pick == 3:
                self._meeting(depth + 1)
            self._line(depth + 1, f"{name} += 1")
            if pick == 3:
                self._line(depth + 1, f"if {name} > {self._random.choice('nm')}:")
                self._line(depth + 2, "break")
        self.together(depth + 1, nested + 1, inside)
        if self._random.random() < 0.2:
            self._line(depth + 1, f"if {self._same(inside)}:")
            self._line(depth + 2, self._random.choice(("break", "continue")))
            self._assigned(depth + 1)


def random_control(random: Random) -> str:
    """The text of a module with one kernel, named ``kernel``."""
    control = _Control(random)
    control.together(1, 0, [])
    return _HEAD + "\n".join(control.lines) + "\n" + _TAIL
