"""Prints effects and control flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from portable.errors import UnsupportedError
from portable.lang.emit.llvm.atomics import Atomics
from portable.lang.emit.llvm.builder import Context, value_type
from portable.lang.emit.llvm.delays import delay
from portable.lang.emit.llvm.expressions import Expressions
from portable.lang.emit.llvm.memory import AliasScopes, Memory
from portable.lang.emit.llvm.printing import print_line
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.nodes import scalar_type
from portable.lang.ir.types import Array
from portable.lang.ir.walks import all_statements
from portable.lang.passes.delays import is_delay

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
        kind, size = scalar_type(x.var), int(x.step.value)
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
