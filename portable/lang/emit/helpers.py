"""The definitions that a kernel needs before it."""

from __future__ import annotations

from collections.abc import Callable

from portable.dtypes import DType
from portable.lang.emit.dialect import Dialect

__all__ = ["Prelude"]


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
        values = {
            "name": name,
            "T": self._dialect.types[kind.short],
            "U": self._dialect.types.get(f"u{kind.bits}", ""),
            "bits": str(kind.bits),
            "asm": self._dialect.asm,
            "r": "l" if kind.bits == 64 else "r",
        }
        return f"{self._dialect.function} {self._dialect.helpers[word].text.format(**values)}"

    def text(self) -> list[str]:
        """All definitions, a blank line after each."""
        lines: list[str] = []
        for text in self._texts.values():
            lines += [*text.splitlines(), ""]
        return lines
