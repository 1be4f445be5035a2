"""Puts a whole program together: arguments, the loop over workgroups, memory, the body.

``void ENTRY(arguments, launch, first, last, room)`` runs the workgroups from `first` to before
`last`, in order. `arguments` are slots of 8 bytes in the order of `Program.arguments`, `launch` the
workgroups along 0, 1 and 2 and the work-items along these, as 64 bits; `room` is memory of the
calling thread for arrays of a workgroup, `Program.local_bytes` long, at a multiple of 128 bytes.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from portable.backend import Capabilities, Program
from portable.dtypes import bool_
from portable.lang.emit.kernels import turn_bytes
from portable.lang.emit.llvm.builder import Builder, Context, value_type
from portable.lang.emit.llvm.memory import bytes_of, element_type
from portable.lang.emit.llvm.places import GROUPS
from portable.lang.emit.llvm.statements import NEXT_WORKGROUP, Statements
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array

# Conversions of halves for processors that have none.
#
# There LLVM calls two functions of the compilers' own library, which no process is sure to hold:
# programs with halves bring them along. Where the processor converts, nobody calls them.

_DEFINITIONS: Final = """\
@llvm.compiler.used = appending global [2 x ptr] [ptr @__extendhfsf2, ptr @__truncsfhf2], \
section "llvm.metadata"
define linkonce_odr hidden float @__extendhfsf2(half %x) nounwind {
%short = bitcast half %x to i16
%bits = zext i16 %short to i32
%high = and i32 %bits, 32768
%sign = shl i32 %high, 16
%size = and i32 %bits, 32767
%moved = shl i32 %size, 13
%normal = add i32 %moved, 939524096
%special = add i32 %moved, 1879048192
%whole = uitofp i32 %size to float
%scaled = fmul float %whole, 0x3E70000000000000
%small = bitcast float %scaled to i32
%is_small = icmp ult i32 %size, 1024
%is_special = icmp uge i32 %size, 31744
%first = select i1 %is_small, i32 %small, i32 %normal
%second = select i1 %is_special, i32 %special, i32 %first
%found = or i32 %sign, %second
%float = bitcast i32 %found to float
ret float %float
}
define linkonce_odr hidden half @__truncsfhf2(float %x) nounwind {
%bits = bitcast float %x to i32
%high = lshr i32 %bits, 16
%sign = and i32 %high, 32768
%size = and i32 %bits, 2147483647
%based = sub i32 %size, 939524096
%upper = lshr i32 %based, 13
%odd = and i32 %upper, 1
%half = add i32 %odd, 4095
%nearest = add i32 %based, %half
%normal = lshr i32 %nearest, 13
%positive = bitcast i32 %size to float
%added = fadd float %positive, 0.5
%sum = bitcast float %added to i32
%small = sub i32 %sum, 1056964608
%is_small = icmp ult i32 %size, 947912704
%is_huge = icmp uge i32 %size, 1199566848
%is_nan = icmp ugt i32 %size, 2139095040
%first = select i1 %is_small, i32 %small, i32 %normal
%second = select i1 %is_huge, i32 31744, i32 %first
%third = select i1 %is_nan, i32 32256, i32 %second
%found = or i32 %sign, %third
%short = trunc i32 %found to i16
%result = bitcast i16 %short to half
ret half %result
}"""


def half_functions(lines: list[str]) -> list[str]:
    """The definitions that a function's instructions may need."""
    return [_DEFINITIONS] if any("half" in line for line in lines) else []


_ALIGNMENT: Final = 128
_STACK: Final = 32 * 1024
"""Bytes of private arrays that are kept on the stack, in all; longer ones are kept in the room."""

_PARAMETERS: Final = (
    "ptr noalias readonly %arguments, ptr noalias readonly %launch, i64 %first, i64 %last, "
    "ptr noalias %room"
)

_AGAIN: Final = """\
%group.more = add nsw i64 %group, 1
%group0.more = add nsw i64 %group0, 1
%wraps0 = icmp eq i64 %group0.more, {x}
%group0.next = select i1 %wraps0, i64 0, i64 %group0.more
%carry0 = zext i1 %wraps0 to i64
%group1.more = add nsw i64 %group1, %carry0
%wraps1 = icmp eq i64 %group1.more, {y}
%group1.next = select i1 %wraps1, i64 0, i64 %group1.more
%carry1 = zext i1 %wraps1 to i64
%group2.next = add nsw i64 %group2, %carry1"""
"""The next workgroup's numbers, without a division."""


def print_kernel(kernel: Kernel, capabilities: Capabilities) -> Program:
    """The program of a kernel whose copies and fragments have been lowered.

    Parameters
    ----------
    kernel : Kernel
    capabilities : Capabilities
        Of the device that it is for.
    """
    return _Printer(kernel, capabilities).program()


class _Printer:
    def __init__(self, kernel: Kernel, capabilities: Capabilities) -> None:
        self._builder = Builder()
        self._context = Context(kernel, capabilities, self._builder, Facts(kernel))
        self._kernel = kernel
        self._statements = Statements(self._context)
        self._entry = f"kernel_{kernel.name.encode('ascii', 'replace').decode().replace('?', '_')}"

    def program(self) -> Program:
        """Prints the body first: it tells what is needed before it."""
        kernel = self._kernel
        shared, room = self._arrays()
        self._variables()
        self._parameters()
        self._statements.kernel()
        sizes = [self._context.launch(dim) for dim in range(3)]
        arguments, loads = self._context.arguments()
        return Program(
            source="\n".join(self._text(sizes, loads)) + "\n",
            entry=self._entry,
            dialect="llvm",
            arguments=tuple(arguments),
            workgroup=kernel.launched,
            local_bytes=room,
            private_bytes=room - shared,
            dynamic_local=False,
            flags=(),
            kernel=kernel.name,
        )

    # -- text -------------------------------------------------------------------------------

    def _text(self, sizes: list[str], loads: list[str]) -> list[str]:
        kernel, builder = self._kernel, self._builder
        return [
            f"; {kernel.name}, {PurePath(kernel.loc.file).name}:{kernel.loc.line}",
            *builder.declarations,
            *half_functions([*builder.call, *builder.lines]),
            f"define void @{self._entry}({_PARAMETERS}) #0 {{",
            "call:",
            *loads,
            *builder.call,
            *self._first_place(sizes),
            "br label %workgroups",
            "workgroups:",
            *self._phis(),
            "%some = icmp slt i64 %group, %last",
            "br i1 %some, label %workgroup, label %done",
            "workgroup:",
            *builder.workgroup,
            *builder.lines,
            f"{NEXT_WORKGROUP}:",
            _AGAIN.format(x=sizes[0], y=sizes[1]),
            "br label %workgroups",
            "done:",
            *(["fence seq_cst"] if self._statements.memory.streamed else []),
            "ret void",
            "}",
            f"attributes #0 = {{ {' '.join(self._attributes())} }}",
            *builder.metadata.lines,
        ]

    def _first_place(self, sizes: list[str]) -> list[str]:
        """The first workgroup's numbers."""
        return [
            f"%group0.first = urem i64 %first, {sizes[0]}",
            f"%rest = udiv i64 %first, {sizes[0]}",
            f"%group1.first = urem i64 %rest, {sizes[1]}",
            f"%group2.first = udiv i64 %rest, {sizes[1]}",
        ]

    def _phis(self) -> list[str]:
        came = f"%{NEXT_WORKGROUP} ]"
        counts = [f"%group = phi i64 [ %first, %call ], [ %group.more, {came}"]
        return counts + [
            f"{group} = phi i64 [ {group}.first, %call ], [ {group}.next, {came}"
            for group in GROUPS
        ]

    def _attributes(self) -> list[str]:
        bits = 8 * self._context.capabilities.vector_bytes
        return ["nounwind", f'"prefer-vector-width"="{bits}"']

    # -- what the body finds ----------------------------------------------------------------

    def _parameters(self) -> None:
        for parameter in self._kernel.parameters:
            if isinstance(parameter, Array):
                continue
            value = self._context.scalar(parameter)
            if parameter.type is bool_:
                value = self._builder.argument(f"passed {parameter.name}", f"icmp ne i8 {value}, 0")
            self._statements.expressions.bind(parameter, value)

    def _variables(self) -> None:
        for variable in self._kernel.variables:
            slot = f"alloca {value_type(variable.type)}"
            name = self._builder.argument(f"variable {variable.name}", slot)
            self._statements.expressions.slots[variable.name] = name

    def _arrays(self) -> tuple[int, int]:
        """Gives arrays their places; the bytes of the room that local ones take, and all."""
        shared = end = 0
        for array in self._in_room():
            alignment = max(_ALIGNMENT, turn_bytes(array))
            start = -(-end // alignment) * alignment
            end = start + bytes_of(array)
            address = f"getelementptr inbounds i8, ptr %room, i64 {start}"
            self._context.pointers[array] = self._builder.argument(f"array {array.name}", address)
            if array.space == "local":
                shared = end
        vector = max(16, self._context.capabilities.vector_bytes)
        for array in self._kernel.arrays:
            if array not in self._context.pointers:
                assert array.layout is not None
                size = array.layout.size * (2 if array.dtype.is_complex else 1)
                slot = f"alloca [{size} x {element_type(array)}], align {vector}"
                name = self._builder.argument(f"array {array.name}", slot)
                self._context.pointers[array] = name
        return shared, end

    def _in_room(self) -> list[Array]:
        """Local arrays, and of private ones the longest, until the others fit on the stack."""
        local = [x for x in self._kernel.arrays if x.space == "local"]
        private = [x for x in self._kernel.arrays if x.space == "private"]
        private.sort(key=bytes_of, reverse=True)
        left, moved = sum(map(bytes_of, private)), []
        while left > _STACK:
            moved.append(private.pop(0))
            left -= bytes_of(moved[-1])
        return local + moved
