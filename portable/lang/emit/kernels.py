"""Puts a whole program together: head, arguments, local memory, variables, body."""

from __future__ import annotations

from functools import cached_property
from pathlib import PurePath

from portable.backend import Argument, Capabilities, Program
from portable.backend.capabilities import Fault
from portable.dtypes import bool_, float16, int32, uint32
from portable.lang.emit.context import Context
from portable.lang.emit.dialect import Dialect
from portable.lang.emit.statements import Statements
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, sub_group_id
from portable.lang.ir.nodes import scalar_type
from portable.lang.ir.types import Array, Turns, Vector, chunk_bytes
from portable.lang.ir.walks import all_statements, holds
from portable.lang.passes.delays import delayed

_ALIGNMENT = 128
_SLOT_BYTES = 8
_RISKY_LOOPS = 3
_RISKY_BARRIERS = 8
"""With fewer loops that hold barriers, and fewer barriers in each, no compiler was seen to crash in
27,000 random kernels."""

_RISKY_ENDS = 4
"""With fewer loops that end by a condition, none in 480 random adjoints."""

_LONG = 200
"""With fewer statements and as many such loops, nothing was lost in 2,000 random adjoints."""


def print_kernel(kernel: Kernel, capabilities: Capabilities, dialect: Dialect) -> Program:
    """The program of a kernel whose copies and fragments have been lowered.

    Parameters
    ----------
    kernel : Kernel
    capabilities : Capabilities
        Of the device that it is for.
    dialect : Dialect
        The language that it is printed in.
    """
    sub_group = e.Cast(sub_group_id(kernel, int32), uint32)
    context = Context.of(delayed(kernel, [sub_group]), capabilities, dialect)
    return _Printer(context).program()


class _Printer:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._kernel = context.kernel
        self._dialect = context.dialect
        self._statements = Statements(context)
        self._writer = self._statements.writer
        self._entry = context.names.fresh(context.kernel.name)
        self._offsets, self._local_bytes = _carve(context.kernel)
        self._dynamic = self._local_bytes > context.dialect.static_local_limit

    def program(self) -> Program:
        """Prints the body first: it tells what arguments and definitions are needed."""
        body = self._body()
        arguments = self._arguments()
        features = self._features(body)
        kernel, capabilities = self._kernel, self._context.capabilities
        preludes = self._dialect.preludes(kernel, capabilities, features)
        lines = [f"// {kernel.name}, {PurePath(kernel.loc.file).name}:{kernel.loc.line}"]
        lines += [*preludes, "", *self._context.prelude.text()]
        workgroup = self._dialect.workgroup(kernel, capabilities, features)
        lines.append(f"{self._dialect.kernel} {workgroup}")
        lines += [*self._signature(arguments), "{", *self._boxes_begun(arguments), *body, "}"]
        return Program(
            source="\n".join(lines) + "\n",
            entry=self._entry,
            dialect=self._dialect.name,
            arguments=tuple(arguments),
            workgroup=kernel.launched,
            local_bytes=self._local_bytes,
            dynamic_local=self._dynamic,
            flags=self._dialect.flags(kernel.options, capabilities),
            hazards=self._hazards(),
            kernel=kernel.name,
        )

    def _boxes_begun(self, arguments: list[Argument]) -> list[str]:
        """What finds the descriptions of boxes, where no word of the dialect does."""
        begun, used = self._dialect.box_begun, self._context.used
        numbers = [i for i, a in enumerate(arguments) if a.kind == "box"] if begun else []
        named = [(i, used[arguments[i]]) for i in numbers]
        return [f"    {begun.format(name=x, entry=self._entry, number=i)}" for i, x in named]

    def _hazards(self) -> frozenset[Fault]:
        """The faults of the device's compiler for which this is compiled in another process."""
        alone = self._kernel.workgroup == (1, 1, 1)
        loops = [n for x in all_statements(self._kernel.body) if (n := _meetings_in_rounds(x))]
        ends = sum(isinstance(x, s.Loop) for x in all_statements(self._kernel.body))
        many = len(loops) >= _RISKY_LOOPS or max(loops, default=0) >= _RISKY_BARRIERS
        risky = (many or ends >= _RISKY_ENDS) and not alone
        long = len(list(all_statements(self._kernel.body))) > _LONG
        lost = long and ends >= _RISKY_ENDS and not alone
        hazards = {x for x, y in ((Fault.CRASHING_LOOPS, risky), (Fault.LOST_ROUNDS, lost)) if y}
        return self._context.capabilities.faults & hazards

    def _features(self, body: list[str]) -> frozenset[str]:
        half = self._dialect.types["f16"]
        text = [*body, *self._context.prelude.text()]
        types = {self._dialect.memory_type(a.dtype) for a in self._arrays()}
        uses_half = half in types or any(half in line for line in text)
        return frozenset(self._context.prelude.features | ({"half"} if uses_half else set()))

    def _arrays(self) -> list[Array]:
        return [p for p in self._kernel.parameters if isinstance(p, Array)]

    # -- arguments --------------------------------------------------------------------------

    def _arguments(self) -> list[Argument]:
        sizes = (a for a in self._context.used if a.kind == "size")
        arguments: list[Argument] = sorted(sizes, key=lambda a: a.dim)
        for number, parameter in enumerate(self._kernel.parameters):
            if isinstance(parameter, Array):
                arguments.append(Argument("pointer", number, 0, parameter.dtype))
                used = [a for a in self._context.used if a.parameter == number]
                order = ("offset", "extent", "stride", "box")
                arguments += sorted(used, key=lambda a: (order.index(a.kind), a.dim))
            else:
                kind = scalar_type(parameter)
                arguments.append(Argument("scalar", number, 0, kind))
        return arguments

    def _signature(self, arguments: list[Argument]) -> list[str]:
        written = self._kernel.written
        texts = [self._argument(a, written) for a in arguments]
        if len(texts) <= 1:
            return [f"void {self._entry}({''.join(texts)})"]
        return [f"void {self._entry}(", *(f"    {t}," for t in texts[:-1]), f"    {texts[-1]})"]

    def _argument(self, argument: Argument, written: frozenset[Array]) -> str:
        if argument.kind == "box":
            return self._dialect.box.format(name=self._context.used[argument])
        if argument.kind not in ("pointer", "scalar"):
            return (
                f"const {self._dialect.types[argument.type.short]} {self._context.used[argument]}"
            )
        parameter = self._kernel.parameters[argument.parameter]
        if argument.kind == "scalar":
            assert isinstance(parameter, e.Variable)
            return self._scalar(parameter)
        assert isinstance(parameter, Array)
        const = "" if parameter in written else "const "
        restrict = f"{self._dialect.restrict} " if self._lonely(parameter, written) else ""
        memory = self._dialect.memory_type(parameter.dtype)
        space = self._dialect.spaces["global"]
        return f"{space}{const}{memory} *{restrict}{self._context.array_name(parameter)}"

    def _lonely(self, array: Array, written: frozenset[Array]) -> bool:
        """Whether compilers may be told that nothing else reaches what a pointer reaches.

        They take it that no other work-item does either: LLVM moves loads of memory that is told so
        over barriers, and hands on what this work-item stored before one. So nothing is said of
        what is written where work-items meet.
        """
        return array.restrict and (array not in written or not self._communicates)

    @cached_property
    def _communicates(self) -> bool:
        """Whether some work-item may wait for what another one writes."""
        meeting: tuple[type[s.Statement], ...] = (s.Atomic, s.Fence, s.Instruction)
        if self._kernel.workgroup != (1, 1, 1):
            meeting = (*meeting, s.Barrier)
        return holds(self._kernel.body, meeting)

    def _scalar(self, variable: e.Variable) -> str:
        kind = scalar_type(variable)
        if kind is bool_:
            name = self._context.names.of(variable.name, "passed")
            return f"const {self._dialect.memory_type(bool_)} {name}"
        return f"const {self._dialect.types[kind.short]} {self._context.names.of(variable.name)}"

    # -- body -------------------------------------------------------------------------------

    def _body(self) -> list[str]:
        with self._writer.indented():
            self._local_arrays()
            self._private_arrays()
            self._adjustments()
            for variable in self._kernel.variables:
                name = self._context.names.of(variable.name)
                self._writer.line(f"{self._statements.type_name(variable.type)} {name};")
            self._statements.sub_group()
            self._statements.block(self._kernel.body)
        return self._writer.lines

    def _adjustments(self) -> None:
        """Pointers move to their first element, and flags become bool."""
        for parameter in self._kernel.parameters:
            if isinstance(parameter, Array):
                self._offset(parameter)
            elif parameter.type is bool_:
                passed = self._context.names.of(parameter.name, "passed")
                self._statements.bind(parameter, f"{passed} != 0")

    def _offset(self, array: Array) -> None:
        if not self._context.capabilities.pointer_offsets:
            return
        name = self._context.array_name(array)
        offset = self._context.size_argument("offset", array, 0)
        factor = "2 * " if array.dtype.is_complex else ""
        self._writer.line(f"{name} += {factor}{offset};")

    def _local_arrays(self) -> None:
        if not self._local_bytes:
            return
        dialect = self._dialect
        template = dialect.local_dynamic if self._dynamic else dialect.local_static
        self._writer.line(template.format(bytes=self._local_bytes))
        space = dialect.spaces["local"]
        for array, start in self._offsets.items():
            memory = dialect.memory_type(array.dtype)
            name = self._context.array_name(array)
            self._writer.line(
                f"{space}{memory} *const {name} = ({space}{memory} *)(local_memory + {start});"
            )
        if _has_uniform(self._kernel):
            start = self._local_bytes - _SLOT_BYTES
            self._writer.line(f"{space}char *const uniform_slot = local_memory + {start};")

    def _private_arrays(self) -> None:
        for array in self._kernel.arrays:
            if array.space == "private":
                self._private(array)

    def _private(self, array: Array) -> None:
        assert array.layout is not None
        name = self._context.array_name(array)
        size = array.layout.size * (2 if array.dtype.is_complex else 1)
        if array.lanes > 1:
            kind = self._statements.type_name(Vector(array.dtype, array.lanes))
            self._writer.line(f"{kind} {name}[{size}];")
            return
        memory = self._dialect.memory_type(array.dtype)
        half_bits = self._dialect.native_vectors and not self._kernel.options.native_half
        if array.dtype is float16 and half_bits:
            bits = self._context.names.fresh(f"{array.name}_bits")
            self._writer.line(f"ushort {bits}[{size}]{self._alignment()};")
            self._writer.line(f"__private half *const {name} = (__private half *){bits};")
            return
        self._writer.line(f"{memory} {name}[{size}]{self._alignment()};")

    def _alignment(self) -> str:
        """On CPUs private arrays are memory: vectors in them should not straddle cache lines."""
        vector = self._context.capabilities.vector_bytes
        return f" __attribute__((aligned({vector})))" if self._dialect.clang and vector > 16 else ""


def _meetings_in_rounds(statement: s.Statement) -> int:
    """At how many barriers the work-items meet in a loop's rounds; 0 for other statements."""
    if not isinstance(statement, s.For | s.Loop):
        return 0
    inner = all_statements(statement.body)
    return sum(isinstance(x, s.Barrier | s.WorkgroupUniform) for x in inner)


def _has_uniform(kernel: Kernel) -> bool:
    alone = kernel.workgroup == (1, 1, 1)
    return not alone and holds(kernel.body, s.WorkgroupUniform)


def turn_bytes(array: Array) -> int:
    """Bytes after which a swizzle repeats, 0 without; matrix units turn chunks by address bits."""
    chunks, size = array.layout.swizzle if array.layout else 0, array.dtype.itemsize
    return chunks and chunk_bytes(size) * chunks * Turns.of(chunks, size).height


def _carve(kernel: Kernel) -> tuple[dict[Array, int], int]:
    """Where each local array starts in the one allocation, and its size in bytes."""
    offsets: dict[Array, int] = {}
    end = 0
    for array in kernel.arrays:
        if array.space == "local":
            assert array.layout is not None
            alignment = max(_ALIGNMENT, turn_bytes(array))
            start = -(-end // alignment) * alignment
            offsets[array] = start
            end = start + array.layout.size * array.dtype.itemsize
    if _has_uniform(kernel):
        end = -(-end // _SLOT_BYTES) * _SLOT_BYTES + _SLOT_BYTES
    return offsets, end
