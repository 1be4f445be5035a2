"""What the printers of one kernel share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from portable.backend import Argument, Capabilities
from portable.dtypes import DType
from portable.lang.emit.llvm.builder import Builder
from portable.lang.emit.llvm.types import memory_type, value_type
from portable.lang.ir import expressions as e
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, ValueType

__all__ = ["Context", "Held"]

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
    arguments : list of Argument
        What the launch passes; every pointer, and what else the text uses.
    pointers : dict
        Where local and private arrays begin.
    """

    kernel: Kernel
    capabilities: Capabilities
    builder: Builder
    facts: Facts
    arguments: list[Argument] = field(default_factory=list)
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
        found = self.pointers.get(array)
        if found is None:
            number = self.kernel.parameters.index(array)
            argument = Argument("pointer", number, 0, array.dtype)
            found = self.pointers[array] = self._argument(argument, "ptr")
        return found

    def size(self, x: e.Extent | e.Stride) -> str:
        """An extent or stride."""
        number = self.kernel.parameters.index(x.array)
        kind: Literal["extent", "stride"] = "extent" if isinstance(x, e.Extent) else "stride"
        argument = Argument(kind, number, x.dim, self.kernel.index_type)
        return self._argument(argument, value_type(self.kernel.index_type))

    def scalar(self, parameter: e.Variable) -> str:
        """A scalar parameter as it is passed: a bool as a byte."""
        number = self.kernel.parameters.index(parameter)
        kind = parameter.type
        assert isinstance(kind, DType)
        return self._argument(Argument("scalar", number, 0, kind), memory_type(kind))

    def _argument(self, argument: Argument, kind: str) -> str:
        if argument not in self.arguments:
            self.arguments.append(argument)
        place = _SLOT * self.arguments.index(argument)
        at = f"getelementptr inbounds i8, ptr %arguments, i64 {place}"
        where = self.builder.argument(f"argument {place} at", at)
        empty = self.builder.metadata.node()
        loaded = f"load {kind}, ptr {where}, align 8, !invariant.load {empty}"
        return self.builder.argument(f"argument {place}", loaded)

    def launch(self, place: int) -> str:
        """A number of the launch: workgroups along 0, 1, 2, then work-items."""
        at = f"getelementptr inbounds i64, ptr %launch, i64 {place}"
        where = self.builder.argument(f"launch {place} at", at)
        empty = self.builder.metadata.node()
        loaded = f"load i64, ptr {where}, align 8, !invariant.load {empty}"
        return self.builder.argument(f"launch {place}", loaded)
