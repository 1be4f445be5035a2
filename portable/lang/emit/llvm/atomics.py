"""Prints atomics and fences.

One thread does the work of a whole workgroup, so that on local memory and among the work-items of
one workgroup what is indivisible elsewhere are plain loads and stores, in the order of the text.
"""

from __future__ import annotations

from typing import Final

from portable.dtypes import DType
from portable.lang.emit.atomics import allowed_order
from portable.lang.emit.llvm.builder import Held, value_type
from portable.lang.emit.llvm.expressions import Expressions
from portable.lang.emit.llvm.memory import Memory, element_type
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array
from portable.lang.passes.operators import float_extreme

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
