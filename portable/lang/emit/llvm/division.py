"""Divides vectors of integers by way of doubles: processors have no instruction for it.

Divisors are as `portable.lang.passes.division` leaves them: never 0, and not -1 beneath the most
negative number, unless both operands are known not to be negative.
"""

from __future__ import annotations

from portable.lang.emit.llvm.builder import Builder, of_lanes, splat, suffix, value_type
from portable.lang.ir.types import Vector


def divided(builder: Builder, word: str, kind: Vector, x: str, y: str) -> str | None:
    """The quotient, truncated, or the remainder of two vectors; None of what LLVM is to divide.

    Parameters
    ----------
    builder : Builder
        Takes the instructions.
    word : {"quot", "rem"}
        Which of the two.
    kind : Vector
        Of integers of 32 bits, or signed ones of 64.
    x, y : str
        The operands.
    """
    if kind.dtype.bits == 32:
        quotient = _in_doubles(builder, kind, x, y)
        if word == "quot":
            return quotient
        typed = value_type(kind)
        return builder.op(f"sub {typed} {x}, {builder.op(f'mul {typed} {quotient}, {y}')}")
    return _Long(builder, kind).divided(word, x, y) if kind.dtype.kind == "i" else None


def _in_doubles(builder: Builder, kind: Vector, x: str, y: str) -> str:
    """Of 32 bits: a quotient that is no integer is further from the next than doubles round."""
    typed, doubles = value_type(kind), of_lanes("double", kind.lanes)
    sign = "s" if kind.dtype.kind == "i" else "u"
    a, b = (builder.op(f"{sign}itofp {typed} {v} to {doubles}") for v in (x, y))
    quotient = builder.op(f"fdiv {doubles} {a}, {b}")
    return builder.op(f"fpto{sign}i {doubles} {quotient} to {typed}")


class _Long:
    """Divides signed integers of 64 bits by their sizes, of which doubles hold 53 bits.

    The quotient of the sizes in doubles is wrong by at most 2**12, relatively by 2**-51. What it
    leaves is divided again, and then wrong by one at most. A divisor that all lanes share is
    inverted once for a loop.
    """

    def __init__(self, builder: Builder, kind: Vector) -> None:
        self._builder = builder
        self._typed, self._doubles = value_type(kind), of_lanes("double", kind.lanes)
        self._flags = of_lanes("i1", kind.lanes)
        self._top = splat("63", kind)

    def divided(self, word: str, x: str, y: str) -> str:
        """The quotient or the remainder."""
        sign = self._op("ashr", x, self._top)
        quotient, rest = self._sizes(self._size(x), self._size(y))
        if word == "rem":
            return self._with_sign(rest, sign)
        return self._with_sign(quotient, self._op("xor", sign, self._op("ashr", y, self._top)))

    def _sizes(self, x: str, y: str) -> tuple[str, str]:
        """Quotient and remainder of numbers up to 2**63, which are unsigned."""
        divisor = self._double("u", y)
        inverse = self._builder.op(f"fdiv {self._doubles} splat (double 1.0), {divisor}")
        near = self._builder.op(f"fmul {self._doubles} {self._double('u', x)}, {inverse}")
        quotient = self._whole("u", near)
        rest = self._op("sub", x, self._op("mul", quotient, y))
        near = self._builder.op(f"fmul {self._doubles} {self._double('s', rest)}, {inverse}")
        further = self._whole("s", near)
        quotient = self._op("add", quotient, further)
        rest = self._op("sub", rest, self._op("mul", further, y))
        below = self._builder.op(f"icmp slt {self._typed} {rest}, zeroinitializer")
        quotient = self._op("sub", quotient, self._number(below))
        rest = self._op("add", rest, self._chosen(below, y))
        above = self._builder.op(f"icmp uge {self._typed} {rest}, {y}")
        quotient = self._op("add", quotient, self._number(above))
        return quotient, self._op("sub", rest, self._chosen(above, y))

    def _op(self, word: str, x: str, y: str) -> str:
        return self._builder.op(f"{word} {self._typed} {x}, {y}")

    def _size(self, x: str) -> str:
        name = f"abs.{suffix(self._typed)}"
        return self._builder.intrinsic(name, self._typed, f"{self._typed} {x}", "i1 false")

    def _with_sign(self, x: str, sign: str) -> str:
        """The negative where `sign` is -1, not where it is 0."""
        return self._op("sub", self._op("xor", x, sign), sign)

    def _double(self, sign: str, x: str) -> str:
        return self._builder.op(f"{sign}itofp {self._typed} {x} to {self._doubles}")

    def _whole(self, sign: str, x: str) -> str:
        return self._builder.op(f"fpto{sign}i {self._doubles} {x} to {self._typed}")

    def _number(self, flags: str) -> str:
        return self._builder.op(f"zext {self._flags} {flags} to {self._typed}")

    def _chosen(self, flags: str, x: str) -> str:
        chosen = f"{self._flags} {flags}, {self._typed} {x}, {self._typed} zeroinitializer"
        return self._builder.op(f"select {chosen}")
