"""The text of one function while it is printed, and what printers of its parts share."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

import numpy as np

from portable.backend import Argument, Capabilities
from portable.dtypes import DType, int64
from portable.lang.ir import expressions as e
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.nodes import scalar_type
from portable.lang.ir.types import Array, ValueType, Vector, lanes_of, scalar_of

# What types and constants are called in LLVM's text.

_NAMES: Final = {
    "bool": "i1",
    "i8": "i8",
    "u8": "i8",
    "i16": "i16",
    "u16": "i16",
    "i32": "i32",
    "u32": "i32",
    "i64": "i64",
    "u64": "i64",
    "f16": "half",
    "bf16": "i16",
    "f8e4m3": "i8",
    "f8e5m2": "i8",
    "f32": "float",
    "f64": "double",
}
_SUFFIXES: Final = {"half": "f16", "float": "f32", "double": "f64"}


def of_lanes(scalar: str, lanes: int) -> str:
    """The type of so many lanes of a type."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def value_type(kind: ValueType) -> str:
    """The type of a value in a register."""
    return of_lanes(_NAMES[scalar_of(kind).short], lanes_of(kind))


def memory_type(dtype: DType, lanes: int = 1) -> str:
    """The type of an element in memory, or of a component where it is complex; bool is a byte."""
    return of_lanes("i8" if dtype.kind == "b" else _NAMES[dtype.real.short], lanes)


def suffix(kind: str) -> str:
    """How a type is called in the names of intrinsic functions."""
    if not kind.startswith("<"):
        return _SUFFIXES.get(kind, kind)
    lanes, scalar = kind[1:-1].split(" x ")
    return f"v{lanes}{suffix(scalar)}"


def literal(value: float, dtype: DType) -> str:
    """A constant of a scalar type, the same to the last bit."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.is_integer:
        return str(int(value))
    with np.errstate(over="ignore"):
        rounded = dtype.numpy.type(value)
    if np.isnan(rounded):
        return "0xH7E00" if dtype.bits == 16 else "0x7FF8000000000000"
    if dtype.bits == 16:
        return f"0xH{int(rounded.view(np.uint16)):04X}"
    return "0x" + struct.pack(">d", float(rounded)).hex().upper()


def splat(scalar: str, kind: ValueType) -> str:
    """A constant, given as a literal, in every lane of a type."""
    if not isinstance(kind, Vector):
        return scalar
    return f"splat ({value_type(kind.dtype)} {scalar})"


# The text of one function while it is being printed.


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


# What the printers of one kernel share.

_SLOT = 8


@dataclass(frozen=True, slots=True)
class Held(e.Expression):
    """A value that has been worked out, in the place of an expression."""

    text: str
    type: ValueType


@dataclass(slots=True)
class Context:
    """One kernel on its way to text.

    Attributes
    ----------
    kernel, capabilities
        What is printed, for what.
    builder, facts
        The text, and proofs.
    passed : dict
        What the text uses of what the launch passes: names of values, and their types.
    pointers : dict
        Where local and private arrays begin.
    """

    kernel: Kernel
    capabilities: Capabilities
    builder: Builder
    facts: Facts
    passed: dict[Argument, tuple[str, str]] = field(default_factory=dict)
    pointers: dict[Array, str] = field(default_factory=dict)

    @property
    def float_flags(self) -> str:
        """What float arithmetic of the kernel allows, with a blank; never NaN or infinity away."""
        options = self.kernel.options
        if options.fastmath:
            return "afn arcp contract nsz reassoc "
        return "contract " if options.contract else ""

    def array(self, array: Array) -> str:
        """Where an array begins."""
        pointer = self.pointers.get(array)
        if pointer is None:
            number = self.kernel.parameters.index(array)
            pointer = self._argument(_value_of(array, number), "ptr")
            if self.capabilities.pointer_offsets:
                pointer = self._moved(array, pointer, number)
            self.pointers[array] = pointer
        return pointer

    def _moved(self, array: Array, pointer: str, number: int) -> str:
        """Where the first element is, so many behind a pointer."""
        offset = self._argument(Argument("offset", number, 0, int64), "i64")
        kind = memory_type(array.dtype)
        if array.dtype.is_complex:
            kind = f"[2 x {kind}]"
        return self.builder.argument(
            f"first of {array.name}", f"getelementptr inbounds {kind}, ptr {pointer}, i64 {offset}"
        )

    def size(self, kind: Literal["extent", "stride"], array: Array, dim: int) -> str:
        """An extent or stride."""
        number = self.kernel.parameters.index(array)
        argument = Argument(kind, number, dim, self.kernel.index_type)
        return self._argument(argument, value_type(self.kernel.index_type))

    def range_end(self, dim: int) -> str:
        """The ndrange's size along a dimension where it ends within a workgroup."""
        argument = Argument("size", -1, dim, self.kernel.index_type)
        return self._argument(argument, value_type(self.kernel.index_type))

    def scalar(self, parameter: e.Variable) -> str:
        """A scalar parameter as it is passed: a bool as a byte."""
        argument = _value_of(parameter, self.kernel.parameters.index(parameter))
        return self._argument(argument, memory_type(argument.type))

    def _argument(self, argument: Argument, kind: str) -> str:
        name, _ = self.passed.setdefault(argument, (f"%a{len(self.passed)}", kind))
        return name

    def arguments(self) -> tuple[list[Argument], list[str]]:
        """What the launch passes, those of a parameter together, and how they are loaded."""
        order = ("size", "pointer", "offset", "scalar", "extent", "stride")
        pointers = [_value_of(x, i) for i, x in enumerate(self.kernel.parameters)]
        every = {*pointers, *self.passed}
        arguments = sorted(every, key=lambda a: (a.parameter, order.index(a.kind), a.dim))
        empty, lines = self.builder.metadata.node(), []
        for number, argument in enumerate(arguments):
            if argument in self.passed:
                name, kind = self.passed[argument]
                at = f"getelementptr inbounds i8, ptr %arguments, i64 {_SLOT * number}"
                lines.append(f"{name}.at = {at}")
                loaded = f"load {kind}, ptr {name}.at, align {_SLOT}, !invariant.load {empty}"
                lines.append(f"{name} = {loaded}")
        return arguments, lines

    def launch(self, number: int) -> str:
        """A number of the launch: workgroups along 0, 1, 2, then work-items."""
        at = f"getelementptr inbounds i64, ptr %launch, i64 {number}"
        where = self.builder.argument(f"launch {number} at", at)
        empty = self.builder.metadata.node()
        loaded = f"load i64, ptr {where}, align 8, !invariant.load {empty}"
        return self.builder.argument(f"launch {number}", loaded)


class Printer(Protocol):
    """Prints expressions of one kernel: what printers of parts of them ask for."""

    context: Context
    builder: Builder

    def value(self, x: e.Expression) -> str:
        """The value of an expression: a name or a literal."""


def _value_of(parameter: Array | e.Variable, number: int) -> Argument:
    """The argument that every parameter has: a pointer, or a scalar."""
    if isinstance(parameter, Array):
        return Argument("pointer", number, 0, parameter.dtype)
    kind = scalar_type(parameter)
    return Argument("scalar", number, 0, kind)
