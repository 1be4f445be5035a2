"""The text of random kernels about names: what they keep when what they were made of changes.

Names stand for numbers, tuples, structs, ranges, views and bound methods, whose sources are
assigned again before they are used. A text is ordinary Python as well, once `as_python` has taken
the decorators away, and means the same there.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import numpy as np

__all__ = ["REFUSED", "as_python", "name_inputs", "random_names"]

LENGTH: Final = 8
ROWS: Final = 16
REFUSED: Final = ("a may be unassigned here",)
"""What kernels refuse and Python does not: a loop's name after the loop, which may not have run."""

_NUMBERS: Final = ("a", "b", "c")
_HEAD: Final = """from typing import NamedTuple

import portable as pt


class Pair(NamedTuple):
    low: int
    high: int

    def total(self, more=0):
        return self.low + 2 * self.high + more

    def __sub__(self, other):
        return Pair(self.low - other.low, self.high - other.high)

    def __lt__(self, other):
        return self.total() < other.total()


"""
_START: Final = """
@pt.kernel
def kernel(x, out):
    a, b, c = x[0], x[1], x[2]
    t = (a, b)
    p = Pair(b, c)
"""


class _Text:
    """Lines under construction."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.names = 0
        self.known = _NUMBERS

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    # -- expressions ----------------------------------------------------------------------------

    def atom(self) -> str:
        number = self.pick(*self.known)
        if self.known is not _NUMBERS:
            return str(self.pick(number, number, self.random.randrange(-5, 9)))
        kinds = (
            number,
            number,
            number,
            str(self.random.randrange(-5, 9)),
            f"t[{self.random.randrange(2)}]",
            self.pick("p.low", "p.high", "p.total()", f"p.total({number})"),
            f"x[({number} + {self.random.randrange(9)}) % {LENGTH}]",
        )
        return str(self.pick(*kinds))

    def number(self, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.3:
            return self.atom()
        one, other = self.number(depth - 1), self.number(depth - 1)
        forms = [
            f"({one} + {other})",
            f"({one} - {other})",
            f"({self.atom()} * {self.random.randrange(-3, 4)})",
            f"({one} // {self.random.randrange(1, 5)})",
            f"({one} % {self.random.randrange(2, 9)})",
            f"({one} if {self.condition(depth - 1)} else {other})",
            f"min({one}, {other})",
            f"max({one}, {other})",
            f"abs({one})",
            f"sum(k * {self.atom()} for k in {self.items()})",
        ]
        if self.known is _NUMBERS:
            forms += [f"helper({one})", f"helper({one}, {other})", f"helper(v={one}, u={other})"]
        return str(self.pick(*forms))

    def small(self) -> str:
        """A number between -999 and 999."""
        return f"{self.number()} % {self.pick(7, 97, 1000)}"

    def items(self) -> str:
        return f"({self.atom()}, {self.atom()}, {self.atom()})"

    def condition(self, depth: int = 1) -> str:
        one, other = self.number(depth), self.number(depth)
        compare = self.pick("<", "<=", "==", "!=", ">", ">=")
        plain = f"{one} {compare} {other}"
        if depth == 0:
            return plain
        further = self.condition(depth - 1)
        forms = [
            plain,
            f"{self.atom()} < {one} <= {other}",
            f"{plain} and {further}",
            f"{plain} or {further}",
            f"not ({further})",
            f"any(({plain}, {further}))",
            f"all(({plain}, {further}))",
        ]
        if self.known is _NUMBERS:
            forms += ["t == (a, b)", "p < Pair(a, b)", "p != Pair(b, a)"]
        return f"({self.pick(*forms)})"

    # -- statements -----------------------------------------------------------------------------

    def add(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    def change(self, indent: int) -> None:
        """Assigns some of what other names may be made of."""
        for _ in range(self.random.randrange(1, 3)):
            if self.random.random() < 0.25:
                self.add(indent, f"if {self.condition()}:")
                self.assignment(indent + 1)
            else:
                self.assignment(indent)

    def assignment(self, indent: int) -> None:
        one, other = self.random.sample(_NUMBERS, 2)
        forms = [
            f"{one} = {self.small()}",
            f"{one} = {self.small()}",
            f"{one} {self.pick('+', '-')}= {self.random.randrange(1, 4)}",
            f"{one}, {other} = {other}, {one}",
            f"{one}, {other} = {self.small()}, {one}",
            f"t = ({self.small()}, {self.small()})",
            "t = (t[1], t[0])",
            f"{one}, {other} = t",
            f"p = Pair({self.small()}, {self.small()})",
            f"p = p._replace({self.pick('low', 'high')}={self.small()})",
            "p -= Pair(1, a)",
            f"p = Pair({one}, 1) if {self.condition()} else p",
            f"x[{self.random.randrange(LENGTH)}] = {self.small()}",
            f"x[{one} % {LENGTH}], {one} = {self.small()}, {self.small()}",
        ]
        self.add(indent, self.pick(*forms))
        if self.random.random() < 0.3:
            self.add(indent, "p = Pair(p.low % 97, p.high % 97)")

    def kept(self, indent: int) -> None:
        """A name for something, changes of what it was made of, and its use."""
        one = self.pick(*_NUMBERS)
        match self.pick("range", "view", "shape", "method", "replace", "tuple", "loop"):
            case "range":
                name, item = self.name("r"), self.name("i")
                self.add(indent, f"{name} = range({one} % 3, {self.number(1)} % 7)")
                self.change(indent)
                self.add(indent, f"for {item} in {name}:")
                self.add(indent + 1, f"{one} = ({one} + {item} * b) % 97")
            case "view":
                name = self.name("v")
                self.add(indent, f"{name} = x[{one} % 5 : {one} % 5 + 3]")
                self.change(indent)
                self.add(indent, f"{name}[{self.random.randrange(3)}] += {self.small()}")
                self.add(indent, f"{one} = ({name}[{self.random.randrange(3)}] + {one}) % 1000")
            case "shape":
                name = self.name("v")
                self.add(indent, f"{name} = x[: {one} % 5 + 1]")
                self.change(indent)
                self.add(indent, f"{one} = {self.pick(f'len({name})', f'{name}.shape[0]')}")
            case "method":
                name = self.name("m")
                self.add(indent, f"{name} = p.total")
                self.change(indent)
                self.add(indent, f"{one} = {name}({self.pick('', one)}) % 1000")
            case "replace":
                name = self.name("m")
                self.add(indent, f"{name} = p._replace")
                self.change(indent)
                self.add(indent, f"p = {name}(low={one})")
            case "tuple":
                name = self.name("u")
                self.add(indent, f"{name} = (p, ({one}, t), x[1])")
                self.change(indent)
                value = self.pick("[0].total()", "[1][0]", "[1][1][1]", "[-1]", "[0:2][1][0]")
                self.add(indent, f"{one} = {name}{value} % 1000")
            case _:
                self.add(indent, f"for {self.name('k')} in {self.items()}:")
                self.add(indent + 1, f"{one} = ({one} * 2 + k{self.names}) % 97")
                self.assignment(indent + 1)

    def block(self, indent: int, depth: int, looped: bool = False) -> None:
        for _ in range(self.random.randrange(1, 4)):
            self.statement(indent, depth, looped)

    def statement(self, indent: int, depth: int, looped: bool) -> None:
        match self.pick("set", "set", "kept", "kept", "if", "for", "while", "out", "leave"):
            case "set":
                self.assignment(indent)
            case "kept":
                self.kept(indent)
            case "if" if depth:
                self.add(indent, f"if {self.condition()}:")
                self.block(indent + 1, depth - 1, looped)
                if self.random.random() < 0.6:
                    self.add(indent, f"elif {self.condition()}:")
                    self.block(indent + 1, depth - 1, looped)
                    self.add(indent, "else:")
                    self.block(indent + 1, depth - 1, looped)
            case "for" if depth:
                item = self.pick("a", *(self.name("i") for _ in range(9)))
                self.add(indent, f"for {item} in range({self.number(1)} % 4):")
                self.block(indent + 1, depth - 1, looped=True)
                if item == "a":
                    self.add(indent, "a = b")
            case "while" if depth:
                name = self.name("w")
                self.add(indent, f"{name} = 0")
                self.add(
                    indent, f"while {name} < {self.random.randrange(1, 4)} and {self.condition()}:"
                )
                self.add(indent + 1, f"{name} += 1")
                self.block(indent + 1, depth - 1, looped=True)
            case "leave" if looped:
                self.add(indent, f"if {self.condition()}:")
                self.assignment(indent + 1)
                self.add(indent + 1, self.pick("break", "continue"))
            case _:
                self.add(indent, f"out[{self.random.randrange(ROWS)}] += {self.small()}")

    def helper(self) -> None:
        """A function with a default, a parameter assigned again and an early return."""
        self.known = ("u", "v")
        self.add(0, f"def helper(u, v={self.random.randrange(-3, 4)}):")
        self.add(1, "u, v = u % 1000, v % 1000")  # products of them fit 32 bits
        self.add(1, "w = u, v")
        self.add(1, f"if {self.condition()}:")
        self.add(2, f"return {self.small()}")
        self.add(1, f"{self.pick('u', 'v')} = {self.small()}")
        self.add(1, f"for k in (u, v, {self.number(1)}):")
        self.add(2, "u, v = v, (u + k) % 97")
        self.add(1, "return (u - v + w[0] * 3 - w[1]) % 1000")
        self.known = _NUMBERS


def random_names(random: Random) -> str:
    """The text of a module with one kernel, named ``kernel``."""
    text = _Text(random)
    text.helper()
    helper, text.lines = "\n".join(text.lines), []
    for _ in range(random.randrange(4, 9)):
        text.statement(1, 2, looped=False)
    ends = [f"    out[{i}] += {x}" for i, x in enumerate(("a", "b", "c", "*t", "p.low", "p.high"))]
    ends = [line.replace("*t", "t[0] - 3 * t[1]") for line in ends]
    return "\n".join([_HEAD + helper, _START, *text.lines, *ends]) + "\n"


def as_python(text: str) -> Any:
    """The kernel of a text as ordinary Python."""
    names: dict[str, Any] = {}
    kept = [line for line in text.splitlines() if "pt." not in line and "portable" not in line]
    exec("\n".join(kept), names)
    return names["kernel"]


def name_inputs() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """What the kernel is given."""
    return np.array([3, 5, 2, -4, 0, 7, 1, 6]), np.zeros(ROWS, np.int64)
