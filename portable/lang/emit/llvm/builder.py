"""The text of one function while it is being printed."""

from __future__ import annotations

from typing import Final


class Metadata:
    """Numbered nodes behind a module's functions."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[str, str] = {}

    def node(self, *parts: str) -> str:
        """The node that holds these, which is shared."""
        text = f"!{{{', '.join(parts)}}}"
        number = self._known.get(text)
        if number is None:
            number = self._known[text] = self._add(text)
        return number

    def distinct(self, *parts: str) -> str:
        """A node of its own, whose first part is itself."""
        number = f"!{len(self.lines)}"
        return self._add(f"distinct !{{{', '.join([number, *parts])}}}")

    def group(self) -> str:
        """A node of its own that holds nothing, such as stands for a group of accesses."""
        return self._add("distinct !{}")

    def _add(self, text: str) -> str:
        name = f"!{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name


class Builder:
    """Instructions in three parts: once for a call, once for a workgroup, and the rest.

    Values are strings: names of instructions, or literals. What the first two parts work out is
    worked out at its first use, by whoever needs it.
    """

    def __init__(self) -> None:
        self.call: Final[list[str]] = []
        self.workgroup: Final[list[str]] = []
        self.lines: Final[list[str]] = []
        self.metadata: Final = Metadata()
        self.block = "workgroup"
        self._values = 0
        self._labels = 0
        self._declared: dict[str, str] = {}
        self._once: dict[str, str] = {}

    # -- instructions -----------------------------------------------------------------------

    def op(self, text: str) -> str:
        """Adds an instruction and gives the name of its value."""
        self._values += 1
        name = f"%v{self._values}"
        self.lines.append(f"{name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Adds an instruction that has no value."""
        self.lines.append(text)

    def once(self, part: list[str], key: str, text: str) -> str:
        """The name of a value that is worked out once, in the part for calls or for workgroups."""
        value = self._once.get(key)
        if value is None:
            self._values += 1
            value = self._once[key] = f"%v{self._values}"
            part.append(f"{value} = {text}")
        return value

    def argument(self, key: str, text: str) -> str:
        """A value that is worked out once for a call."""
        return self.once(self.call, key, text)

    def intrinsic(self, name: str, result: str, *arguments: str, flags: str = "") -> str:
        """A call of one of LLVM's functions, which need no declaration; arguments with types."""
        return self.op(f"call {flags}{result} @llvm.{name}({', '.join(arguments)})")

    # -- blocks -----------------------------------------------------------------------------

    def labels(self, *words: str) -> list[str]:
        """New labels, of one number."""
        self._labels += 1
        return [f"{word}{self._labels}" for word in words]

    def start(self, label: str) -> None:
        """Begins a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str, metadata: str = "") -> None:
        """Goes on elsewhere."""
        self.lines.append(f"br label %{label}{metadata}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """Goes on at one of two labels."""
        self.lines.append(f"br i1 {condition}, label %{yes}, label %{no}")

    # -- definitions ------------------------------------------------------------------------

    def declare(self, name: str, text: str) -> None:
        """Adds a declaration or definition beside the function, once."""
        self._declared.setdefault(name, text)

    @property
    def declarations(self) -> list[str]:
        """Those beside the function."""
        return list(self._declared.values())
