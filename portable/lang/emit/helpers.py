"""Helpers of the prelude that every dialect shares, and the set that a kernel uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from portable.dtypes import DType
from portable.lang.emit.dialect import Dialect, Helper

__all__ = ["SHARED", "Prelude"]

SHARED: Final[dict[str, Helper]] = {
    "minus": Helper("{T} {name}({T} x)\n{{\n    return ({T})(0 - ({U})x);\n}}"),
    "div": Helper("{T} {name}({T} x, {T} y)\n{{\n    return y == 0 ? 0 : x / y;\n}}"),
    "rem": Helper("{T} {name}({T} x, {T} y)\n{{\n    return y == 0 ? 0 : x % y;\n}}"),
    "floordiv": Helper(
        """{T} {name}({T} x, {T} y)
{{
    if (y == 0)
        return 0;
    if (y == -1)
        return {minus}(x);
    const {T} quotient = x / y;
    return quotient - ((x ^ y) < 0 && quotient * y != x);
}}""",
        uses=("minus",),
    ),
    "mod": Helper(
        """{T} {name}({T} x, {T} y)
{{
    if (y == 0 || y == -1)
        return 0;
    const {T} remainder = x % y;
    return remainder != 0 && (remainder ^ y) < 0 ? remainder + y : remainder;
}}"""
    ),
    "fmod_floor": Helper(
        """{T} {name}({T} x, {T} y)
{{
    const {T} remainder = {fmod}(x, y);
    if (remainder == 0)
        return {copysign}(remainder, y);
    return (remainder < 0) != (y < 0) ? remainder + y : remainder;
}}"""
    ),
    "floordiv_floor": Helper(
        """{T} {name}({T} x, {T} y)
{{
    if (y == 0)
        return x / y;
    const {T} remainder = {fmod}(x, y);
    {T} quotient = (x - remainder) / y;
    if (remainder != 0 && (remainder < 0) != (y < 0))
        quotient -= 1;
    if (quotient == 0)
        return {copysign}(quotient, x / y);
    const {T} below = {floor}(quotient);
    return quotient - below > ({T})0.5 ? below + 1 : below;
}}"""
    ),
    "fmin_nan": Helper("{T} {name}({T} x, {T} y)\n{{\n    return x < y || x != x ? x : y;\n}}"),
    "fmax_nan": Helper("{T} {name}({T} x, {T} y)\n{{\n    return x > y || x != x ? x : y;\n}}"),
    # Not x < 0 ? -x : x, which becomes PTX's abs, and ptxas takes abs(x) < 0 to be false for any x.
    "abs_wrap": Helper(
        """{T} {name}({T} x)
{{
    const {T} negative = {minus}(x);
    return x > negative ? x : negative;
}}""",
        uses=("minus",),
    ),
    "trips": Helper(
        """{U} {name}({T} start, {T} stop, {T} step)
{{
    if (step > 0 && start < stop)
        return (({U})stop - ({U})start - 1) / ({U})step + 1;
    if (step < 0 && start > stop)
        return (({U})start - ({U})stop - 1) / (0 - ({U})step) + 1;
    return 0;
}}"""
    ),
}


class Prelude:
    """The definitions that a kernel's text needs before it, in the order of first use."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._texts: dict[str, str] = {}
        self.features: set[str] = set()

    def define(self, name: str, make: Callable[[], str]) -> str:
        """Makes sure that `name` is defined, by the text that `make` gives; returns the name."""
        if name not in self._texts:
            text = make()
            self._texts[name] = text
        return name

    def helper(self, word: str, kind: DType) -> str:
        """The name of a helper for a scalar type, which is added where it is new."""
        name = f"pt_{word}_{kind.short}"
        return self.define(name, lambda: self._helper_text(name, word, kind))

    def _helper_text(self, name: str, word: str, kind: DType) -> str:
        helper = self._dialect.helpers[word]
        signed = {32: "i32", 64: "i64"}.get(kind.bits)
        wide = kind.bits == 64
        types = self._dialect.types
        values = {
            "name": name,
            "T": types[kind.short],
            "U": types[f"u{kind.bits}"] if signed else "",
            "I": types[signed] if signed else "",
            "bits": str(kind.bits),
            "s": self._dialect.suffixes[kind.short],
            "asm": self._dialect.asm,
            "r": "l" if wide else "r",
        }
        for used in ("fmod", "copysign", "floor"):
            values[used] = self._dialect.functions.get(f"{used}.{kind.short}", used).partition("(")[
                0
            ]
        for used in helper.uses:
            values[used] = self.helper(used, kind)
        return f"{self._dialect.function} {helper.text.format(**values)}"

    def text(self) -> list[str]:
        """All definitions, a blank line after each."""
        lines: list[str] = []
        for text in self._texts.values():
            lines += [*text.splitlines(), ""]
        return lines
