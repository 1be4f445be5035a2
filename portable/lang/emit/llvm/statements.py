"""Prints effects, atomics and control flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from portable.dtypes import DType, float64, int32
from portable.errors import UnsupportedError
from portable.lang.emit.atomics import allowed_order
from portable.lang.emit.llvm.builder import Context, Held, value_type
from portable.lang.emit.llvm.expressions import Expressions, converted
from portable.lang.emit.llvm.memory import AliasScopes, Memory, element_type
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array
from portable.lang.ir.walks import all_statements
from portable.lang.passes.delays import FACTORS, is_delay
from portable.lang.passes.operators import float_extreme

# Prints atomics and fences.
#
# One thread does the work of a whole workgroup, so that on local memory and among the work-items of
# one workgroup what is indivisible elsewhere are plain loads and stores, in the order of the text.


# What delays are calls of; see `portable.lang.passes.delays`.

_DEFINITION: Final = f"""\
define internal void @pt_delay(i32 %own, i32 %place, i32 %turn) nounwind {{
start:
%rounds = alloca i32
%t0 = mul i32 %turn, {FACTORS[0]}
%x0 = xor i32 %own, %place
%x1 = xor i32 %x0, %t0
%h0 = lshr i32 %x1, 16
%x2 = xor i32 %x1, %h0
%x3 = mul i32 %x2, 2146121005
%h1 = lshr i32 %x3, 15
%x4 = xor i32 %x3, %h1
%x5 = mul i32 %x4, 2221713035
%h2 = lshr i32 %x5, 16
%x6 = xor i32 %x5, %h2
%luck = and i32 %x6, 255
%none = icmp ult i32 %luck, 160
%short = icmp ult i32 %luck, 208
%middle = icmp ult i32 %luck, 240
%long = icmp ult i32 %luck, 254
%m0 = select i1 %long, i32 10, i32 7
%m1 = select i1 %middle, i32 14, i32 %m0
%m2 = select i1 %short, i32 18, i32 %m1
%n0 = lshr i32 %x6, 8
%n1 = lshr i32 %n0, %m2
%n = select i1 %none, i32 0, i32 %n1
store volatile i32 %n, ptr %rounds
br label %again
again:
%left = load volatile i32, ptr %rounds
%less = sub i32 %left, 1
store volatile i32 %less, ptr %rounds
%more = icmp sgt i32 %left, 0
br i1 %more, label %again, label %done
done:
ret void
}}"""
"""Mostly not at all, often for a moment, now and then for longer than all else takes."""


def delay(expressions: Expressions, x: s.Instruction) -> None:
    """A call of the function that waits.

    Parameters
    ----------
    expressions : Expressions
        Of the kernel that is printed.
    x : Instruction
        What `portable.lang.passes.delays` adds.
    """
    builder = expressions.builder
    builder.declare("pt_delay", _DEFINITION)
    given = ", ".join(map(expressions.typed, x.inputs))
    builder.do(f"call void @pt_delay({given})")


# -- atomics ---------------------------------------------------------------------------------------

_ORDERS: Final = {
    "relaxed": "monotonic",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
}
_WORDS: Final = {"exchange": "xchg"}


class Atomics:
    """Atomics and fences of one kernel."""

    def __init__(self, expressions: Expressions, memory: Memory) -> None:
        self._expressions = expressions
        self._builder = expressions.builder
        self._memory = memory

    def fence(self, x: s.Fence) -> None:
        """A fence; in a workgroup only LLVM itself must keep the order."""
        if x.order == "relaxed":
            return
        alone = 'syncscope("singlethread") ' if x.scope == "workgroup" else ""
        self._builder.do(f"fence {alone}{_ORDERS[x.order]}")

    def operation(self, x: s.Atomic) -> None:
        """An atomic operation."""
        pointer = self._memory.addresses.pointer(x.array, x.index)
        given = [None if y is None else self._given(x.array, y) for y in (x.value, x.expected)]
        value, expected = given
        if x.array.space == "local" or x.scope == "workgroup":
            old = self._plain(x, pointer, value, expected)
        else:
            old = self._atomic(x, pointer, value, expected)
        if x.var is not None:
            self._expressions.bind(x.var, old)

    def _given(self, array: Array, x: e.Expression) -> str:
        return self._memory.to_memory(array, self._expressions.value(x), x.type)

    # -- within a thread --------------------------------------------------------------------

    def _plain(self, x: s.Atomic, pointer: str, value: str | None, expected: str | None) -> str:
        """On memory that no other thread sees; its rounds are not told to be apart."""
        typed = element_type(x.array)
        align = f"align {x.array.dtype.itemsize}"
        old = ""
        if x.op != "store":
            old = self._builder.op(f"load {typed}, ptr {pointer}, {align}")
        if x.op == "load":
            return old
        new = value or ""
        if x.op == "compare_exchange":
            assert expected is not None
            alike = self._alike(x.array.dtype, old, expected)
            new = self._builder.op(f"select i1 {alike}, {typed} {value}, {typed} {old}")
        elif x.op not in ("store", "exchange"):
            new = self._combined(x.op, x.array.dtype, old, new)
        self._builder.do(f"store {typed} {new}, ptr {pointer}, {align}")
        return old

    def _alike(self, dtype: DType, x: str, y: str) -> str:
        bits, typed = f"i{dtype.bits}", value_type(dtype)
        if dtype.is_float:
            x, y = (self._builder.op(f"bitcast {typed} {z} to {bits}") for z in (x, y))
        return self._builder.op(f"icmp eq {bits} {x}, {y}")

    def _combined(self, op: str, dtype: DType, old: str, value: str) -> str:
        """What an operation makes of the value from before."""
        x, y = (Held(text, dtype) for text in (old, value))
        if dtype.is_float and op in ("min", "max"):
            extreme: e.BinaryOp = "min" if op == "min" else "max"
            return self._expressions.value(float_extreme(extreme, x, y, lambda z, _: z))
        typed = value_type(dtype)
        if dtype.is_float:
            return self._builder.op(f"f{op} {typed} {old}, {value}")
        if op in ("min", "max"):
            name = f"{'s' if dtype.kind == 'i' else 'u'}{op}.{typed}"
            return self._builder.intrinsic(name, typed, f"{typed} {old}", f"{typed} {value}")
        return self._builder.op(f"{op} {typed} {old}, {value}")

    # -- between threads --------------------------------------------------------------------

    def _atomic(self, x: s.Atomic, pointer: str, value: str | None, expected: str | None) -> str:
        dtype = x.array.dtype
        typed, order = element_type(x.array), _ORDERS[allowed_order(x.op, x.order)]
        tail = f"{order}, align {dtype.itemsize}"
        match x.op:
            case "load":
                return self._builder.op(f"load atomic {typed}, ptr {pointer} {tail}")
            case "store":
                self._builder.do(f"store atomic {typed} {value}, ptr {pointer} {tail}")
                return ""
            case "compare_exchange":
                assert value is not None
                assert expected is not None
                return self._exchanged(x, pointer, expected, value)
            case "min" | "max" if dtype.is_float:
                assert value is not None
                return self._retried(x, pointer, value)
        word = f"f{x.op}" if dtype.is_float and x.op in ("add", "sub") else x.op
        if x.op in ("min", "max") and dtype.kind == "u":
            word = f"u{x.op}"
        word = _WORDS.get(word, word)
        return self._builder.op(f"atomicrmw {word} ptr {pointer}, {typed} {value} {tail}")

    def _exchanged(self, x: s.Atomic, pointer: str, expected: str, value: str) -> str:
        """The value from before a store that happens where it is what was expected."""
        dtype = x.array.dtype
        typed, bits = value_type(dtype), f"i{dtype.bits}"
        if dtype.is_float:
            expected, value = (
                self._builder.op(f"bitcast {typed} {y} to {bits}") for y in (expected, value)
            )
        orders = f"{_ORDERS[x.order]} {_ORDERS[allowed_order('load', x.order)]}"
        pair = self._builder.op(
            f"cmpxchg ptr {pointer}, {bits} {expected}, {bits} {value} {orders}, "
            f"align {dtype.itemsize}"
        )
        old = self._builder.op(f"extractvalue {{ {bits}, i1 }} {pair}, 0")
        return self._builder.op(f"bitcast {bits} {old} to {typed}") if dtype.is_float else old

    def _retried(self, x: s.Atomic, pointer: str, value: str) -> str:
        """An operation that processors lack, until nobody else has written meanwhile."""
        builder, dtype = self._builder, x.array.dtype
        typed, bits, align = value_type(dtype), f"i{dtype.bits}", f"align {dtype.itemsize}"
        again, done = builder.labels("again", "done")
        first = builder.op(f"load atomic {bits}, ptr {pointer} monotonic, {align}")
        before = builder.block
        builder.jump(again)
        builder.start(again)
        result = f"%found.{again}"
        seen = builder.op(f"phi {bits} [ {first}, %{before} ], [ {result}, %{again} ]")
        old = builder.op(f"bitcast {bits} {seen} to {typed}")
        new = self._combined(x.op, dtype, old, value)
        stored = builder.op(f"bitcast {typed} {new} to {bits}")
        orders = f"{_ORDERS[x.order]} {_ORDERS[allowed_order('load', x.order)]}"
        pair = builder.op(
            f"cmpxchg ptr {pointer}, {bits} {seen}, {bits} {stored} {orders}, {align}"
        )
        builder.do(f"{result} = extractvalue {{ {bits}, i1 }} {pair}, 0")
        builder.branch(builder.op(f"extractvalue {{ {bits}, i1 }} {pair}, 1"), done, again)
        builder.start(done)
        return old


_FORMATS: Final = {
    "bool": "%d",
    "i32": "%d",
    "u32": "%u",
    "i64": "%lld",
    "u64": "%llu",
    "f16": "%g",
    "f32": "%g",
    "f64": "%g",
}
_LONGEST: Final = 24
"""Characters of a number, at most."""


def print_line(printer: Expressions, x: s.Print) -> None:
    """The instructions of one statement."""
    builder, formats, values, room = printer.builder, "", [], 2
    for piece in x.pieces:
        if isinstance(piece, str):
            formats += piece.replace("%", "%%")
            room += len(piece.encode())
            continue
        kind = piece.type
        assert isinstance(kind, DType)
        formats += _FORMATS[kind.short]
        room += _LONGEST
        values.append(_passed(printer, printer.value(piece), kind))
    text = _text(printer, formats + "\n")
    builder.declare("snprintf", "declare i32 @snprintf(ptr, i64, ptr, ...) nounwind")
    builder.declare("portable_print", "declare void @portable_print(ptr, i64) nounwind")
    line = builder.argument(f"line of {room}", f"alloca [{room} x i8]")
    arguments = ", ".join([f"ptr {line}", f"i64 {room}", f"ptr {text}", *values])
    count = builder.op(f"call i32 (ptr, i64, ptr, ...) @snprintf({arguments})")
    length = builder.op(f"sext i32 {count} to i64")
    builder.do(f"call void @portable_print(ptr {line}, i64 {length})")


def _passed(printer: Expressions, value: str, kind: DType) -> str:
    """An argument of a function that takes any: what is narrow is widened."""
    wanted = float64 if kind.is_float else int32 if kind.kind == "b" else kind
    return f"{value_type(wanted)} {converted(printer.builder, value, kind, wanted, 1)}"


def _text(printer: Expressions, text: str) -> str:
    """The name of a constant that holds a text, which ends in a zero."""
    data = text.encode() + b"\0"
    letters = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data)
    name = f"@text{len(printer.builder.declarations)}"
    definition = f'{name} = private constant [{len(data)} x i8] c"{letters}"'
    printer.builder.declare(definition, definition)
    return name


NEXT_WORKGROUP: Final = "workgroup.next"
"""The label at which a workgroup has ended."""

_NOT_UNROLLED: Final = 40
"""Instructions of a loop around others beyond which LLVM is not to repeat it, unless it is asked.

Kernels say where they want that; what LLVM repeats by itself doubles the time of compiling them.
"""

_NOT_INTERLEAVED: Final = 300
"""Instructions of a loop beyond which LLVM is not to run several rounds of vectors at a time.

They fill a processor by themselves, and LLVM 22 looks at values that are the same in all rounds
once for each way that leads to them, without end in the adjoint of a nest of loops. It may forget
what it was told of a loop that it has turned over: in a text with `ONE_ROUND` nothing is to be
interleaved.
"""

ONE_ROUND: Final = '"llvm.loop.interleave.count", i32 1'
APART: Final = '"llvm.loop.parallel_accesses"'
"""What stands in a text with loops over work-items."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """Where a loop goes on."""

    next: str
    end: str


class Statements:
    """Turns the statements of one kernel into instructions.

    Parameters
    ----------
    context : Context
        The kernel and its text.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._builder = context.builder
        self.expressions = Expressions(context)
        self._aliasing = AliasScopes(context)
        self.memory = Memory(self.expressions, self._aliasing)
        self._atomics = Atomics(self.expressions, self.memory)
        self._loops: list[_Loop] = []
        self._closed: list[int] = []
        self._end = NEXT_WORKGROUP

    def kernel(self) -> None:
        """What one call does for one workgroup."""
        if self.block(self._context.kernel.body):
            self._builder.jump(NEXT_WORKGROUP)

    def block(self, body: s.Block) -> bool:
        """Prints a block; whether what follows it is reached."""
        mark = self.expressions.mark()
        reached = all(self.statement(x) for x in body)
        self.expressions.forget(mark)
        return reached

    def statement(self, x: s.Statement) -> bool:
        """Prints one statement; whether what follows it is reached."""
        match x:
            case s.Let(var=var, value=value):
                self.expressions.bind(var, self.expressions.value(value))
            case s.Assign(var=var, value=value):
                slot = self.expressions.slots[var.name]
                self._builder.do(f"store {self.expressions.typed(value)}, ptr {slot}")
            case s.Load(var=var):
                self.expressions.bind(var, self.memory.load(x))
            case s.Store():
                self.memory.store(x)
            case s.If():
                return self._if(x)
            case s.For():
                self._for(x)
            case s.Loop():
                self._loop(x)
            case s.ForItems():
                self._for_items(x)
            case s.Break():
                self._builder.jump(self._loops[-1].end)
                return False
            case s.Continue():
                self._builder.jump(self._loops[-1].next)
                return False
            case s.Return():
                self._builder.jump(self._end)
                return False
            case _:
                self._together(x)
        return True

    def _together(self, x: s.Statement) -> None:
        """Statements that other work-items or the device take part in."""
        match x:
            case s.Fence():
                self._atomics.fence(x)
            case s.Atomic():
                self._atomics.operation(x)
            case s.Print():
                print_line(self.expressions, x)
            case s.Check() | s.CopyCommit() | s.CopyWait():
                pass  # copies are done when their statements are
            case s.CopyVector():
                self.memory.copy(x)
            case s.Instruction(name="delay"):
                delay(self.expressions, x)
            case s.Instruction(name="prefetch", addresses=((array, index),)):
                self.memory.fetch(array, self.memory.addresses.offset(array, index), 2)
            case _:
                name = x.name if isinstance(x, s.Instruction) else type(x).__name__
                raise UnsupportedError(
                    f"{x.loc}: {name} has no lowering for {self._context.capabilities.dialect} "
                    f"devices such as {self._context.capabilities.name}"
                )

    # -- control flow -----------------------------------------------------------------------

    def _if(self, x: s.If) -> bool:
        builder = self._builder
        then, orelse, after = builder.labels("then", "else", "after")
        builder.branch(self.expressions.value(x.condition), then, orelse if x.orelse else after)
        reached = not x.orelse
        for label, body in ((then, x.then), (orelse, x.orelse)):
            if label == orelse and not body:
                continue
            builder.start(label)
            if self.block(body):
                builder.jump(after)
                reached = True
        if reached:
            builder.start(after)
        return reached

    def _for(self, x: s.For) -> None:
        """A loop whose step is a constant and whose bound stays what it is."""
        assert isinstance(x.step, e.Const)
        kind, size = x.var.type, int(x.step.value)
        assert isinstance(kind, DType)
        bounds = [self.expressions.value(bound) for bound in (x.start, x.stop)]
        sign = "s" if kind.kind == "i" else "u"
        counted = _Counted(value_type(kind), bounds[0], bounds[1], size, sign)
        head, following, end = self._builder.labels("for", "next", "end")
        value = self._begin(counted, head, following, end)
        mark = self.expressions.mark()
        self.expressions.bind(x.var, value)
        self._loops.append(_Loop(following, end))
        if self.block(x.body):
            self._builder.jump(following)
        self._loops.pop()
        self.expressions.forget(mark)
        hints, labels = self._unrolled(x.unroll), (head, following, end)
        self._finish(counted, value, labels, hints, asked=bool(hints))

    def _begin(self, x: _Counted, head: str, following: str, end: str) -> str:
        """A loop's beginning; gives what counts its rounds."""
        builder = self._builder
        before = builder.block
        builder.jump(head)
        builder.start(head)
        value = builder.op(f"phi {x.kind} [ {x.start}, %{before} ], [ %{head}.more, %{following} ]")
        test = f"{x.sign}{'lt' if x.step > 0 else 'gt'}"
        body = f"{head}.body"
        builder.branch(builder.op(f"icmp {test} {x.kind} {value}, {x.stop}"), body, end)
        builder.start(body)
        return value

    def _finish(
        self,
        x: _Counted,
        value: str,
        labels: tuple[str, str, str],
        hints: list[str],
        asked: bool = False,
    ) -> None:
        """A loop's end, with what LLVM is told of it."""
        head, following, end = labels
        builder = self._builder
        builder.start(following)
        wraps = "nsw" if x.sign == "s" else "nuw" if x.step > 0 else ""
        builder.do(f"%{head}.more = add {wraps} {x.kind} {value}, {x.step}")
        self._back(head, end, hints, asked)

    def _back(self, head: str, end: str, hints: list[str], asked: bool = False) -> None:
        """Goes back to a loop's head, and on behind it; says what LLVM is to leave alone."""
        builder = self._builder
        node, start = builder.metadata.node, builder.lines.index(f"{head}:")
        size, encloses = len(builder.lines) - start, any(x > start for x in self._closed)
        self._closed.append(start)
        if size > _NOT_INTERLEAVED:
            hints = [*hints, node(f"!{ONE_ROUND}")]
        if encloses and size > _NOT_UNROLLED and not asked:
            hints = [*hints, *self._unrolled(1)]
        builder.jump(head, f", !llvm.loop {builder.metadata.distinct(*hints)}" if hints else "")
        builder.start(end)

    def _unrolled(self, unroll: int) -> list[str]:
        node = self._builder.metadata.node
        match unroll:
            case 0:
                return []
            case -1:
                return [node('!"llvm.loop.unroll.full"')]
            case 1:
                return [node('!"llvm.loop.unroll.disable"')]
            case s.FEW:
                return [*self._unrolled(1), node('!"llvm.loop.vectorize.enable"', "i1 false")]
            case _:
                return [node('!"llvm.loop.unroll.count"', f"i32 {unroll}")]

    def _loop(self, x: s.Loop) -> None:
        builder = self._builder
        head, end = builder.labels("loop", "end")
        before = builder.block
        builder.jump(head)
        builder.start(head)
        count = builder.op(f"phi i32 [ 0, %{before} ], [ %{head}.more, %{head}.next ]")
        self._loops.append(_Loop(f"{head}.next", end))
        if self.block(x.body):
            builder.jump(f"{head}.next")
        self._loops.pop()
        builder.start(f"{head}.next")
        if all(isinstance(y, s.Let | s.Atomic | s.If) or is_delay(y) for y in x.body):  # it waits
            builder.declare("portable_linger", "declare void @portable_linger(i32) nounwind")
            builder.do(f"call void @portable_linger(i32 {count})")
        builder.do(f"%{head}.more = add i32 {count}, 1")
        self._back(head, end, [])

    # -- work-items -------------------------------------------------------------------------

    def _for_items(self, x: s.ForItems) -> None:
        """Loops over all work-items, the first dimension innermost; their rounds are apart."""
        kernel, places = self._context.kernel, self.expressions.places
        kind, sizes = value_type(kernel.index_type), kernel.launched
        opened: list[tuple[_Counted, str, tuple[str, str, str]]] = []
        local = ["0", "0", "0"]
        for dim in (2, 1, 0):
            if sizes[dim] == 1:
                continue
            head, following, end = self._builder.labels("items", "next", "end")
            counted = _Counted(kind, "0", str(sizes[dim]), 1, "s")
            local[dim] = self._begin(counted, head, following, end)
            opened.append((counted, local[dim], (head, following, end)))
        places.local = local
        last = self._builder.labels("item")[0]
        around, self._end = self._end, last
        loops, self._loops = self._loops, []
        self._aliasing.group = group = self._builder.metadata.group()
        self._aliasing.shared = self._shared(x)
        if self.block(x.body):
            self._builder.jump(last)
        self._aliasing.group, self._aliasing.shared = "", frozenset()
        self._loops, self._end, places.local = loops, around, []
        self._builder.start(last)
        apart = self._builder.metadata.node(f"!{APART}", group)
        # Short rows would be unrolled, and LLVM then takes vectors across rows, by gathers.
        in_rows = [self._builder.metadata.node('!"llvm.loop.unroll.disable"')]
        for counted, value, labels in reversed(opened):
            row = in_rows if len(opened) > 1 and counted is opened[-1][0] else []
            self._builder.jump(labels[1])
            self._finish(counted, value, labels, [apart, *row])

    def _shared(self, x: s.ForItems) -> frozenset[Array]:
        """Private arrays that only this loop uses: each round has the same one anew."""
        inside = _touched(x.body)
        everywhere = _touched(self._context.kernel.body)
        return frozenset(
            array
            for array, times in inside.items()
            if array.space == "private" and times == everywhere[array]
        )


@dataclass(frozen=True, slots=True)
class _Counted:
    """What counts a loop's rounds: its type, from where, to where, by what, signed or not."""

    kind: str
    start: str
    stop: str
    step: int
    sign: str


def _touched(body: s.Block) -> dict[Array, int]:
    """How many statements touch each array."""
    counts: dict[Array, int] = {}
    for x in all_statements(body):
        for memory in x.touched():
            if isinstance(memory, Array):
                counts[memory] = counts.get(memory, 0) + 1
    return counts
