"""Prints loads and stores, with the conversions between memory and register types."""

from __future__ import annotations

from typing import Final

from portable.dtypes import DType
from portable.lang.emit.llvm.addresses import Addresses, Apart, element_type, unit_axis
from portable.lang.emit.llvm.builder import memory_type, of_lanes, suffix, value_type
from portable.lang.emit.llvm.conversions import converted
from portable.lang.emit.llvm.expressions import Expressions
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array, ValueType, Vector, chunk_bytes, lanes_of, scalar_of

_LINE: Final = 64


class Memory:
    """Loads and stores of one kernel.

    Attributes
    ----------
    streamed : bool
        Whether a store passed by the caches; such are ordered by a fence alone.
    """

    def __init__(self, expressions: Expressions, apart: Apart) -> None:
        self._expressions = expressions
        self._builder = expressions.builder
        self._apart = apart
        self.addresses = Addresses(expressions)
        self.streamed = False

    # -- loads ------------------------------------------------------------------------------

    def load(self, x: s.Load) -> str:
        """The loaded value."""
        array, kind = x.array, x.var.type
        offset = self.addresses.offset(array, x.index)
        if not isinstance(kind, Vector) or array.lanes > 1:
            return self._element(array, offset, kind, x.component)
        axis = x.axis % array.ndim
        if self._contiguous(array, axis, kind.lanes):
            if x.ahead and array.space == "global":
                self.fetch(array, self.addresses.moved(offset, x.ahead, "1"), 3)
            if array.dtype.is_complex:
                return self._components(array, offset, kind, x.component or 0)
            return self._whole(array, offset, kind)
        if array.space == "global" and array.strides[axis] == "zero":
            value = self._element(array, offset, kind.dtype, x.component)
            return self._expressions.broadcast(value, kind)
        places = self._places(array, x.index, axis, kind.lanes, offset)
        lanes = [self._element(array, location, kind.dtype, x.component) for location in places]
        return self._expressions.gathered(lanes, kind)

    def fetch(self, array: Array, offset: str, near: int) -> None:
        """Brings what lies there to the caches; `near` says how near, 3 being the first."""
        pointer = self.addresses.beyond(array, offset)
        self._builder.do(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 {near}, i32 1)")

    def _element(self, array: Array, offset: str, kind: ValueType, component: int | None) -> str:
        pointer = self.addresses.beyond(array, offset, component)
        return self.from_memory(array, self._load(element_type(array), array, pointer), kind)

    def _load(self, typed: str, array: Array, pointer: str) -> str:
        return self._builder.op(
            f"load {typed}, ptr {pointer}, align {_alignment(array)}{self._apart.text(array)}"
        )

    def _whole(self, array: Array, offset: str, kind: Vector) -> str:
        pointer = self.addresses.beyond(array, offset)
        loaded = self._load(memory_type(array.dtype, kind.lanes), array, pointer)
        return self.from_memory(array, loaded, kind)

    def _components(self, array: Array, offset: str, kind: Vector, component: int) -> str:
        """Of neighbours that are complex: all of them are loaded, in one piece."""
        pointer = self.addresses.beyond(array, offset, 0)
        typed = memory_type(array.dtype, 2 * kind.lanes)
        loaded = self._load(typed, array, pointer)
        chosen = list(range(component, 2 * kind.lanes, 2))
        return self._expressions.shuffle(typed, [loaded], chosen)

    def from_memory(self, array: Array, value: str, kind: ValueType) -> str:
        """What was loaded, as a value of a register."""
        if array.lanes > 1:
            return value
        lanes = lanes_of(kind)
        dtype = array.dtype.real
        if dtype.kind == "b":
            typed = memory_type(dtype, lanes)
            return self._builder.op(f"icmp ne {typed} {value}, zeroinitializer")
        return converted(self._builder, value, dtype, scalar_of(kind), lanes)

    # -- stores -----------------------------------------------------------------------------

    def store(self, x: s.Store) -> None:
        """A store."""
        array, kind = x.array, x.value.type
        value = self.to_memory(array, self._expressions.value(x.value), kind)
        offset = self.addresses.offset(array, x.index)
        if not isinstance(kind, Vector) or array.lanes > 1:
            pointer = self.addresses.beyond(array, offset, x.component)
            self._store(element_type(array), value, array, pointer)
            return
        axis = x.axis % array.ndim
        typed = memory_type(array.dtype, kind.lanes)
        if self._contiguous(array, axis, kind.lanes) and not array.dtype.is_complex:
            pointer = self.addresses.beyond(array, offset)
            if x.streaming and self._may_stream(array, kind):
                self._stream(array, pointer, value, kind)
            else:
                self._store(typed, value, array, pointer)
            return
        scalar = memory_type(array.dtype)
        places = self._places(array, x.index, axis, kind.lanes, offset)
        for lane, location in enumerate(places):
            one = self._builder.op(f"extractelement {typed} {value}, i64 {lane}")
            pointer = self.addresses.beyond(array, location, x.component)
            self._store(scalar, one, array, pointer)

    def _store(self, typed: str, value: str, array: Array, pointer: str) -> None:
        self._builder.do(
            f"store {typed} {value}, ptr {pointer}, align {_alignment(array)}"
            f"{self._apart.text(array)}"
        )

    def to_memory(self, array: Array, value: str, kind: ValueType) -> str:
        """A register's value as an array holds it."""
        if array.lanes > 1:
            return value
        lanes, dtype = lanes_of(kind), array.dtype.real
        if dtype.kind == "b":
            typed = value_type(kind)
            return self._builder.op(f"zext {typed} {value} to {memory_type(dtype, lanes)}")
        return converted(self._builder, value, scalar_of(kind), dtype, lanes)

    def _may_stream(self, array: Array, kind: Vector) -> bool:
        """Whether a vector may fill a line of the caches."""
        whole = array.dtype.itemsize * kind.lanes == _LINE
        return whole and array.space == "global" and array.dtype.kind != "b"

    def _stream(self, array: Array, pointer: str, value: str, kind: Vector) -> None:
        """A store past the caches where the vector is a whole line of them.

        Else there are two stores: LLVM takes two branches with the like for one plain store.
        """
        self.streamed = True
        builder, typed = self._builder, memory_type(array.dtype, kind.lanes)
        past, plain, after = builder.labels("past", "plain", "after")
        location = builder.op(f"ptrtoint ptr {pointer} to i64")
        rest = builder.op(f"and i64 {location}, {_LINE - 1}")
        builder.branch(builder.op(f"icmp eq i64 {rest}, 0"), past, plain)
        builder.start(past)
        hint, apart = builder.metadata.node("i32 1"), self._apart.text(array)
        builder.do(
            f"store {typed} {value}, ptr {pointer}, align {_LINE}, !nontemporal {hint}{apart}"
        )
        builder.jump(after)
        builder.start(plain)
        half = kind.lanes // 2
        for at in (0, half):
            part = self._expressions.shuffle(typed, [value], list(range(at, at + half)))
            there = builder.op(
                f"getelementptr inbounds {memory_type(array.dtype)}, ptr {pointer}, i64 {at}"
            )
            self._store(memory_type(array.dtype, half), part, array, there)
        builder.jump(after)
        builder.start(after)

    # -- copies -----------------------------------------------------------------------------

    def copy(self, x: s.CopyVector) -> None:
        """So many neighbours, and zeros for the rest of a local target."""
        builder, dtype, lanes = self._builder, x.target.dtype, x.lanes
        if dtype.is_complex:
            lanes *= 2
        typed = memory_type(dtype, lanes)
        valid = self._expressions.wide(x.valid)
        if dtype.is_complex:
            valid = builder.op(f"mul i64 {valid}, 2")
        counts = ", ".join(f"i64 {lane}" for lane in range(lanes))
        most = self._expressions.spread(valid, "i64", lanes)
        of_counts, mask = of_lanes("i64", lanes), of_lanes("i1", lanes)
        inside = builder.op(f"icmp sgt {of_counts} {most}, <{counts}>")
        places = [(x.source, x.source_index), (x.target, x.target_index)]
        source, target = (self.addresses.pointer(array, index) for array, index in places)
        name = f"masked.load.{suffix(typed)}.p0"
        at = f"align {_alignment(x.source)} "
        loaded = builder.op(
            f"call {typed} @llvm.{name}(ptr {at}{source}, {mask} {inside}, "
            f"{typed} zeroinitializer){self._apart.text(x.source)}"
        )
        if x.target.space != "global":
            self._store(typed, loaded, x.target, target)
            return
        name = f"masked.store.{suffix(typed)}.p0"
        at = f"align {_alignment(x.target)} "
        builder.do(
            f"call void @llvm.{name}({typed} {loaded}, ptr {at}{target}, {mask} {inside})"
            f"{self._apart.text(x.target)}"
        )

    # -- vectors ----------------------------------------------------------------------------

    def _contiguous(self, array: Array, axis: int, lanes: int) -> bool:
        if not unit_axis(array, axis):
            return False
        swizzled = array.layout is not None and array.layout.swizzle
        size = array.dtype.itemsize
        return not swizzled or lanes * size <= chunk_bytes(size)

    def _places(
        self, array: Array, index: tuple[e.Expression, ...], axis: int, lanes: int, first: str
    ) -> list[str]:
        """The offsets of a vector's lanes."""
        if array.layout is not None and array.layout.swizzle:
            moved = (_moved(index, axis, lane) for lane in range(lanes))
            return [self.addresses.offset(array, each) for each in moved]
        step = self.addresses.along(array, axis)
        return [first, *(self.addresses.moved(first, lane, step) for lane in range(1, lanes))]


def _alignment(array: Array) -> int:
    """Bytes; elements lie where their type does, vectors where elements do."""
    if array.lanes > 1 and array.dtype.kind == "b":
        return 1
    whole = array.lanes & (array.lanes - 1) == 0  # of three lanes there is no such alignment
    return min(_LINE, array.dtype.real.itemsize * (array.lanes if whole else 1))


def _moved(index: tuple[e.Expression, ...], axis: int, by: int) -> tuple[e.Expression, ...]:
    index_part = index[axis]
    kind = index_part.type
    assert isinstance(kind, DType)
    moved = e.Binary("add", index_part, e.Const(by, kind)) if by else index_part
    return (*index[:axis], moved, *index[axis + 1 :])
