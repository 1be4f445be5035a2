"""What the printers of one kernel share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from portable.backend import Argument, Capabilities
from portable.dtypes import DType, int64
from portable.lang.emit.llvm.builder import Builder
from portable.lang.emit.llvm.types import memory_type, value_type
from portable.lang.ir import expressions as e
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, ValueType

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

    def size(self, x: e.Extent | e.Stride) -> str:
        """An extent or stride."""
        number = self.kernel.parameters.index(x.array)
        kind: Literal["extent", "stride"] = "extent" if isinstance(x, e.Extent) else "stride"
        argument = Argument(kind, number, x.dim, self.kernel.index_type)
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


def _value_of(parameter: Array | e.Variable, number: int) -> Argument:
    """The argument that every parameter has: a pointer, or a scalar."""
    if isinstance(parameter, Array):
        return Argument("pointer", number, 0, parameter.dtype)
    kind = parameter.type
    assert isinstance(kind, DType)
    return Argument("scalar", number, 0, kind)
