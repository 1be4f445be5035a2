"""Prints effects and control flow."""

from __future__ import annotations

from math import prod
from typing import Final

from portable.dtypes import DType
from portable.errors import UnsupportedError
from portable.lang.emit import vectors
from portable.lang.emit.atomic_runs import atomic_runs
from portable.lang.emit.atomics import Atomics
from portable.lang.emit.context import Code, Context, Level, Writer, wrapped
from portable.lang.emit.expressions import Expressions
from portable.lang.emit.memory import Memory
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import linear_id
from portable.lang.ir.nodes import scalar_type
from portable.lang.ir.types import Array, ValueType, Vector
from portable.lang.ir.walks import of_kind
from portable.lang.passes.delays import FACTORS
from portable.lang.passes.sub_groups import active_items

# What delays are calls of; see `portable.lang.passes.delays`.

_LENGTHS: Final = """\
{function} void pt_delay({u32} x, const {u32} place, const {u32} turn)
{{
    x ^= place ^ turn * {factor}u;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    x ^= x >> 16;
    const {u32} luck = x & 255u;
    if (luck < 160u)
        return;
    const {u32} most = luck < 208u ? 6u : luck < 240u ? 10u : luck < 254u ? 14u : 17u;
    const {u32} length = (x >> 8) >> (24u - most) >> {share}u;
{wait}
}}"""

_CLOCK: Final = """\
    const {u64} start = pt_clock();
    while (pt_clock() - start < length) {{
    }}"""

_ROUNDS: Final = """\
    for (volatile {u32} left = length; left != 0;)
        left = left - 1;"""


_FIRST: Final = "barrier.first"
_OWN: Final = "barrier.sub_group"


class Statements:
    """Turns the statements of one kernel into lines.

    Parameters
    ----------
    context : Context
        The kernel and its dialect.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.dialect = context.dialect
        self.writer = Writer()
        self.expressions = Expressions(context)
        self.memory = Memory(self.expressions)
        self._atomics = Atomics(self.expressions, self.memory.addresses)
        items = context.kernel.workgroup
        self.alone = items[0] * items[1] * items[2] == 1

    def block(self, body: s.Block) -> None:
        """Prints the statements of a block."""
        runs = atomic_runs(body) if self.context.capabilities.atomic_lanes > 1 else {}
        for statement in body:
            if id(statement) not in runs:
                self.statement(statement)
            elif runs[id(statement)]:
                self._lines(self._atomics.run(runs[id(statement)]))

    def statement(self, x: s.Statement) -> None:
        """Prints one statement."""
        match x:
            case s.Let(var=var, value=value):
                self.bind(var, self.expressions.text(value))
            case s.Assign(var=var, value=value):
                self._assign(var, value)
            case s.Load():
                self._load(x)
            case s.Store():
                self._lines(self.memory.store(x))
            case s.If():
                self._if(x)
            case s.For():
                self._for(x)
            case s.Loop(body=body):
                with self.writer.block("while (true)"):
                    self.block(body)
            case s.Break():
                self.writer.line("break;")
            case s.Continue():
                self.writer.line("continue;")
            case s.Return():
                self.writer.line("return;")
            case _:
                self._together(x)

    def _together(self, x: s.Statement) -> None:
        """Statements that other work-items or the device take part in."""
        match x:
            case s.Barrier():
                self._meet(x)
            case s.Fence():
                self._lines(self._atomics.fence(x))
            case s.Atomic():
                self._lines(self._atomics.operation(x))
            case s.SubGroup():
                self.bind(x.var, self._shuffle(x))
            case s.WorkgroupUniform():
                self._uniform(x)
            case s.Print():
                self._print(x)
            case s.Check():
                pass  # of a kernel that is not compiled with checks
            case s.CopyVector():
                self._copy_vector(x)
            case s.Instruction(name="delay", inputs=inputs):
                self.context.prelude.define("pt_delay", self._delay)
                self.writer.line(f"pt_delay({', '.join(map(self.expressions.text, inputs))});")
            case s.Instruction():
                self._instruction(x)
            case _:
                raise UnsupportedError(
                    f"{x.loc}: {type(x).__name__} has no lowering for {self.dialect.name} devices "
                    f"such as {self.context.capabilities.name}"
                )

    def _lines(self, lines: list[str]) -> None:
        for line in lines:
            self.writer.line(line)

    # -- values -----------------------------------------------------------------------------

    def type_name(self, kind: ValueType) -> str:
        """The C type of a register; a vector's struct is defined."""
        if isinstance(kind, Vector):
            return vectors.vector_name(self.expressions, kind)
        return self.dialect.types[kind.short]

    def bind(self, var: e.Variable, text: str) -> None:
        """Prints the definition of a name that never changes."""
        name = self.context.names.of(var.name)
        self.writer.line(f"const {self.type_name(var.type)} {name} = {text};")

    def _assign(self, var: e.Variable, value: e.Expression) -> None:
        name = self.context.names.of(var.name)
        self.writer.line(f"{name} = {self.expressions.text(value)};")

    def _load(self, x: s.Load) -> None:
        lines, text = self.memory.load(x)
        self._lines(lines)
        self.bind(x.var, text)

    # -- control flow -----------------------------------------------------------------------

    def _if(self, x: s.If, head: str = "if") -> None:
        condition = self.expressions.text(x.condition)
        with self.writer.block(f"{head} ({condition})"):
            self.block(x.then)
        if not x.orelse:
            return
        self.writer.lines.pop()
        if len(x.orelse) == 1 and isinstance(x.orelse[0], s.If):
            self._if(x.orelse[0], "} else if")
            return
        with self.writer.block("} else"):
            self.block(x.orelse)

    def _for(self, x: s.For) -> None:
        """A loop whose step is a constant and whose bound stays what it is."""
        assert isinstance(x.step, e.Const)
        name, size = self.context.names.of(x.var.name), int(x.step.value)
        start = self.expressions.text(x.start)
        stop = wrapped(self.expressions.code(x.stop), Level.SHIFT)
        test = f"{name} {'<' if size > 0 else '>'} {stop}"
        step = f"{name} {'+=' if size > 0 else '-='} {abs(size)}"
        if x.unroll not in (0, s.FEW):
            self.writer.line("#pragma unroll" + (f" {x.unroll}" if x.unroll > 0 else ""))
        head = f"for ({self.type_name(x.var.type)} {name} = {start}; {test}; {step})"
        with self.writer.block(head):
            self.block(x.body)

    # -- the workgroup ----------------------------------------------------------------------

    def barrier(self) -> None:
        """Prints a barrier; one work-item alone needs none."""
        if not self.alone:
            self.writer.line(self.dialect.barrier)

    def _meet(self, x: s.Barrier) -> None:
        """A barrier of the first work-items, where the dialect has such; else of all."""
        if not x.meeting or _FIRST not in self.dialect.instructions:
            self.barrier()
            return
        count = e.Const(x.meeting, self._index())
        sub_group, first = (
            self.context.names.of(_OWN),
            x.meeting // self.context.kernel.sub_group_size,
        )
        with self.writer.block(f"if ({sub_group} < {first})"):
            self._instruction(s.Instruction(_FIRST, x.loc, inputs=(count,)))

    def sub_group(self) -> None:
        """Defines the number of the own sub-group if barriers of some ask for it.

        By a shuffle, so that NVIDIA's compiler sees that it is the same in a sub-group: where
        work-items may have gone apart, it moves no instructions across later shuffles.
        """
        barriers = list(of_kind(self.context.kernel.body, s.Barrier))
        if _FIRST not in self.dialect.instructions or not any(x.meeting for x in barriers):
            return
        size = e.Const(self.context.kernel.sub_group_size, self._index())
        number = e.Binary("quot", linear_id(self.context.kernel, self._index()), size)
        of = e.Variable(_OWN, self._index())
        self.bind(
            of,
            self._shuffle(s.SubGroup(of, "shuffle", number, self._zero(), self.context.kernel.loc)),
        )

    def _uniform(self, x: s.WorkgroupUniform) -> None:
        if self.alone:
            self.bind(x.var, self.expressions.text(x.value))
            return
        kind = scalar_type(x.var)
        stored = "u8" if kind.kind == "b" else kind.short
        kept = self.dialect.memory_types.get(stored) or self.dialect.types[stored]
        slot = f"*({self.dialect.spaces['local']}{kept} *)uniform_slot"
        self.barrier()
        first = e.Compare("eq", linear_id(self.context.kernel, self._index()), self._zero())
        with self.writer.block(f"if ({self.expressions.text(first)})"):
            self.writer.line(f"{slot} = {self.expressions.text(x.value)};")
        self.barrier()
        self.bind(x.var, f"{slot} != 0" if kind.kind == "b" else slot)

    def _shuffle(self, x: s.SubGroup) -> str:
        assert x.op == "shuffle", f"{x.op} has not been lowered"
        assert x.argument is not None
        self.context.prelude.features.add("sub_groups")
        return self.dialect.sub_groups["shuffle"].format(
            self.expressions.text(x.value),
            self.expressions.text(x.argument),
            active=self.expressions.text(active_items(self.context.kernel)),
            size=self.context.kernel.sub_group_size,
        )

    def _index(self) -> DType:
        return self.context.kernel.index_type

    def _zero(self) -> e.Const:
        return e.Const(0, self._index())

    def _delay(self) -> str:
        """The function that waits; on processors, which run items in turn, for each its share."""
        dialect, capabilities = self.dialect, self.context.capabilities
        share = prod(self.context.kernel.workgroup).bit_length() - 1
        words = {
            "function": dialect.function,
            "u32": dialect.types["u32"],
            "u64": dialect.types["u64"],
            "asm": f"{dialect.asm} volatile",
            "factor": str(FACTORS[0]),
            "share": str(0 if capabilities.local_memory_dedicated else share),
        }
        wait = (_CLOCK if dialect.clock else _ROUNDS).format(**words)
        text = _LENGTHS.format(**words, wait=wait)
        return f"{dialect.clock.format(**words)}\n\n{text}" if dialect.clock else text

    # -- debugging --------------------------------------------------------------------------

    def _print(self, x: s.Print) -> None:
        formats, values = [], []
        for piece in x.pieces:
            if isinstance(piece, str):
                quoted = piece.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
                formats.append(quoted.replace("%", "%%"))
                continue
            kind = scalar_type(piece)
            formats.append(self.dialect.printf_formats[kind.short])
            code = self.expressions.operand(piece)
            values.append(f"(int){code}" if kind.kind == "b" else self.expressions.text(piece))
        arguments = ", ".join([f'"{"".join(formats)}\\n"', *values])
        self.writer.line(f"printf({arguments});")

    # -- device instructions ----------------------------------------------------------------

    def _copy_vector(self, x: s.CopyVector) -> None:
        size = x.lanes * x.target.dtype.itemsize
        kind = scalar_type(x.valid)
        valid: e.Expression = x.valid
        bounds = self.context.facts.bounds(valid)
        if bounds.low < 0:
            valid = e.Binary("max", valid, e.Const(0, kind))
        if bounds.high > x.lanes:
            valid = e.Binary("min", valid, e.Const(x.lanes, kind))
        count = e.Binary("mul", valid, e.Const(x.target.dtype.itemsize, kind))
        places = ((x.target, x.target_index), (x.source, x.source_index))
        self._instruction(
            s.Instruction(f"cp.async.{size}", x.loc, inputs=(count,), addresses=places)
        )

    def _instruction(self, x: s.Instruction) -> None:
        spelled = self.dialect.instructions.get(x.name)
        if spelled is None:
            raise UnsupportedError(f"{x.loc}: {self.dialect.name} has no instruction {x.name}")
        for text in spelled.helpers:
            self.context.prelude.define(text.partition("(")[0], lambda text=text: text)  # type: ignore[misc]
        values = {f"o{i}": self.context.names.of(v.name) for i, v in enumerate(x.outputs)}
        values |= {f"i{i}": self.expressions.text(v) for i, v in enumerate(x.inputs)}
        for i, (array, index) in enumerate(x.addresses):
            pointer = self._pointer(array, index)
            values[f"a{i}"] = self.dialect.address.format(p=pointer)
            values[f"s{i}"] = self.dialect.shared_address.format(p=pointer)
        for i, (array, box) in enumerate(x.boxes):
            name = self.context.box_argument(array, box)
            values[f"b{i}"] = self.dialect.box_address.format(name=name)
        self._lines(spelled.text.format(**values).splitlines())

    def _pointer(self, array: Array, index: tuple[e.Expression, ...]) -> str:
        addresses = self.memory.addresses
        pointer: Code = addresses.pointer(array, addresses.offset(array, index))
        return pointer.text
