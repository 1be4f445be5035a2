"""The text of random kernels about names: what they keep when what they were made of changes.

Names stand for numbers, tuples, structs, ranges, views and bound methods, whose sources are
assigned again before they are used. A text is ordinary Python as well, once `as_python` has taken
the decorators away, and means the same there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

import numpy as np

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

    def one_of(self, *forms: Callable[[], str]) -> str:
        """What one form makes; the others draw no numbers, of which Hypothesis keeps a record."""
        return self.random.choice(forms)()

    # -- expressions ----------------------------------------------------------------------------

    def literal(self) -> str:
        return str(self.random.randrange(-5, 9))

    def known_number(self) -> str:
        return str(self.pick(*self.known))

    def atom(self) -> str:
        if self.known is not _NUMBERS:
            return self.one_of(self.known_number, self.known_number, self.literal)
        return self.one_of(
            self.known_number,
            self.known_number,
            self.known_number,
            self.literal,
            lambda: f"t[{self.random.randrange(2)}]",
            lambda: self.pick("p.low", "p.high", "p.total()", f"p.total({self.known_number()})"),
            lambda: f"x[({self.known_number()} + {self.random.randrange(9)}) % {LENGTH}]",
        )

    def number(self, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.3:
            return self.atom()

        def inner() -> str:
            return self.number(depth - 1)

        forms: list[Callable[[], str]] = [
            lambda: f"({inner()} + {inner()})",
            lambda: f"({inner()} - {inner()})",
            lambda: f"({self.atom()} * {self.random.randrange(-3, 4)})",
            lambda: f"({inner()} // {self.random.randrange(1, 5)})",
            lambda: f"({inner()} % {self.random.randrange(2, 9)})",
            lambda: f"({inner()} if {self.condition(depth - 1)} else {inner()})",
            lambda: f"min({inner()}, {inner()})",
            lambda: f"max({inner()}, {inner()})",
            lambda: f"abs({inner()})",
            lambda: f"sum(k * {self.atom()} for k in {self.items()})",
        ]
        if self.known is _NUMBERS:
            forms += [
                lambda: f"helper({inner()})",
                lambda: f"helper({inner()}, {inner()})",
                lambda: f"helper(v={inner()}, u={inner()})",
            ]
        return self.one_of(*forms)

    def small(self) -> str:
        """A number between -999 and 999."""
        return f"{self.number()} % {self.pick(7, 97, 1000)}"

    def items(self) -> str:
        return f"({self.atom()}, {self.atom()}, {self.atom()})"

    def compared(self, depth: int) -> str:
        compare = self.pick("<", "<=", "==", "!=", ">", ">=")
        return f"{self.number(depth)} {compare} {self.number(depth)}"

    def condition(self, depth: int = 1) -> str:
        if depth == 0:
            return self.compared(0)

        def plain() -> str:
            return self.compared(depth)

        def further() -> str:
            return self.condition(depth - 1)

        forms: list[Callable[[], str]] = [
            plain,
            lambda: f"{self.atom()} < {self.number(depth)} <= {self.number(depth)}",
            lambda: f"{plain()} and {further()}",
            lambda: f"{plain()} or {further()}",
            lambda: f"not ({further()})",
            lambda: f"any(({plain()}, {further()}))",
            lambda: f"all(({plain()}, {further()}))",
        ]
        if self.known is _NUMBERS:
            same = ("t == (a, b)", "p < Pair(a, b)", "p != Pair(b, a)")
            forms += [partial(str, text) for text in same]
        return f"({self.one_of(*forms)})"

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
        small, index = self.small, self.random.randrange
        line = self.one_of(
            lambda: f"{one} = {small()}",
            lambda: f"{one} = {small()}",
            lambda: f"{one} {self.pick('+', '-')}= {index(1, 4)}",
            lambda: f"{one}, {other} = {other}, {one}",
            lambda: f"{one}, {other} = {small()}, {one}",
            lambda: f"t = ({small()}, {small()})",
            lambda: "t = (t[1], t[0])",
            lambda: f"{one}, {other} = t",
            lambda: f"p = Pair({small()}, {small()})",
            lambda: f"p = p._replace({self.pick('low', 'high')}={small()})",
            lambda: "p -= Pair(1, a)",
            lambda: f"p = Pair({one}, 1) if {self.condition()} else p",
            lambda: f"x[{index(LENGTH)}] = {small()}",
            lambda: f"x[{one} % {LENGTH}], {one} = {small()}, {small()}",
        )
        self.add(indent, line)
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
