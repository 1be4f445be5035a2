"""Prints loads and stores, with the conversions between memory and register types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from portable.dtypes import int32
from portable.lang.emit.addresses import lie_together, swizzled_row
from portable.lang.emit.llvm.builder import Context, memory_type, of_lanes, suffix, value_type
from portable.lang.emit.llvm.conversions import converted
from portable.lang.emit.llvm.expressions import Expressions
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.nodes import neighbour
from portable.lang.ir.types import Array, Turns, ValueType, Vector, lanes_of, scalar_of

# Where elements lie, and what LLVM is told of which accesses can meet.


class Addresses:
    """Works out addresses for one kernel.

    Sums and products in them are exact: the index type was chosen so that no offset of an element
    wraps.
    """

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._context = expressions.context
        self._builder = expressions.builder

    def pointer(
        self, array: Array, index: Sequence[e.Expression], component: int | None = None
    ) -> str:
        """Where an element begins, or a component of a complex one."""
        return self.beyond(array, self.offset(array, index), component)

    def beyond(self, array: Array, offset: str, component: int | None = None) -> str:
        """The place so many elements behind an array's first; 64 bits or a literal."""
        if array.dtype.is_complex:
            offset = self._times("i64", offset, "2")
            offset = self._plus("i64", offset, str(component or 0))
        base = self._context.array(array)
        if offset == "0":
            return base
        kind = element_type(array)
        return self._builder.op(f"getelementptr inbounds {kind}, ptr {base}, i64 {offset}")

    def offset(self, array: Array, index: Sequence[e.Expression]) -> str:
        """The offset of an element, in elements, as 64 bits or a literal."""
        kind = "i32" if all(x.type is int32 for x in index) and self._narrow() else "i64"
        total = "0"
        for dim, x in enumerate(index):
            total = self._plus(kind, total, self._term(kind, array, dim, x))
        if array.layout is not None and array.layout.swizzle:
            total = self._turned(kind, array, index, total)
        if kind == "i64" or _literal(total):
            return total
        return self._builder.op(f"sext i32 {total} to i64")

    def along(self, array: Array, axis: int) -> str:
        """What one step along an axis adds to the offset; not for swizzled arrays' rows."""
        stride = self._stride(array, axis)
        if _literal(stride) or not self._narrow():
            return stride
        return self._builder.argument(f"wide {stride}", f"sext i32 {stride} to i64")

    def moved(self, offset: str, by: int, step: str) -> str:
        """An offset so many steps further."""
        return self._plus("i64", offset, self._times("i64", step, str(by)))

    def _narrow(self) -> bool:
        return self._context.kernel.index_type is int32

    def _term(self, kind: str, array: Array, dim: int, x: e.Expression) -> str:
        stride = self._stride(array, dim)
        if stride == "0":
            return "0"
        if isinstance(x, e.Const):
            number = str(int(x.value))
        else:
            number = self._expressions.value(x) if kind == "i32" else self._expressions.wide(x)
        if kind == "i64" and not _literal(stride) and self._narrow():
            stride = self._builder.argument(f"wide {stride}", f"sext i32 {stride} to i64")
        return self._times(kind, number, stride)

    def _stride(self, array: Array, dim: int) -> str:
        if array.layout is not None:
            return str(array.layout.strides[dim])
        match array.strides[dim]:
            case "zero":
                return "0"
            case "unit":
                return "1"
            case _:
                return self._context.size("stride", array, dim)

    def _plus(self, kind: str, x: str, y: str) -> str:
        if "0" in (x, y):
            return y if x == "0" else x
        if _literal(x) and _literal(y):
            return str(int(x) + int(y))
        return self._builder.op(f"add nsw {kind} {x}, {y}")

    def _times(self, kind: str, x: str, y: str) -> str:
        if "0" in (x, y):
            return "0"
        if "1" in (x, y):
            return y if x == "1" else x
        if _literal(x) and _literal(y):
            return str(int(x) * int(y))
        return self._builder.op(f"mul nsw {kind} {x}, {y}")

    def _turned(self, kind: str, array: Array, index: Sequence[e.Expression], total: str) -> str:
        """An offset with its chunk turned: what its row begins with is a multiple of all chunks."""
        assert array.layout is not None
        turns = Turns.of(array.layout.swizzle, array.dtype.itemsize)
        row = index[swizzled_row(array.layout, array.shape)]
        turn = self._expressions.value(row) if kind == "i32" else self._expressions.wide(row)
        if turns.shift:
            turn = self._builder.op(f"lshr {kind} {turn}, {turns.shift}")
        turn = self._builder.op(f"and {kind} {turn}, {turns.mask}")
        if turns.chunk > 1:
            turn = self._builder.op(f"mul {kind} {turn}, {turns.chunk}")
        return self._builder.op(f"xor {kind} {total}, {turn}")


def element_type(array: Array) -> str:
    """The type of an array's elements in memory; of a component where they are complex."""
    if array.lanes > 1:
        return value_type(Vector(array.dtype, array.lanes))
    return memory_type(array.dtype)


def _literal(x: str) -> bool:
    return x.lstrip("-").isdigit()


class AliasScopes:
    """Metadata by which LLVM knows accesses that never alias, and rounds that are independent.

    Attributes
    ----------
    group : str
        The group of accesses of the loop over work-items around; empty outside of all.
    shared : frozenset of Array
        Private arrays of which the rounds of that loop may use the same elements.
    """

    def __init__(self, context: Context) -> None:
        self._metadata = context.builder.metadata
        parameters = [x for x in context.kernel.parameters if isinstance(x, Array)]
        self._arrays = [*parameters, *(x for x in context.kernel.arrays if x.space == "local")]
        self._scopes: dict[Array, str] = {}
        self._texts: dict[Array, str] = {}
        self.group = ""
        self.shared: frozenset[Array] = frozenset()

    def text(self, array: Array) -> str:
        """What stands behind a load or store of an array."""
        text = self._texts.get(array)
        if text is None:
            text = self._texts[array] = self._scoped(array)
        if self.group and array not in self.shared:
            text += f", !llvm.access.group {self.group}"
        return text

    def _scoped(self, array: Array) -> str:
        others = [x for x in self._arrays if x is not array and _disjoint(x, array)]
        if array not in self._arrays or not others:
            return ""
        if not self._scopes:
            domain = self._metadata.distinct()
            self._scopes = {x: self._metadata.distinct(domain) for x in self._arrays}
        scope = self._metadata.node(self._scopes[array])
        apart = self._metadata.node(*(self._scopes[x] for x in others))
        return f", !alias.scope {scope}, !noalias {apart}"


def _disjoint(x: Array, y: Array) -> bool:
    return x.restrict or y.restrict or "local" in (x.space, y.space)


def bytes_of(array: Array) -> int:
    """How long a private or local array is; vectors take powers of two of lanes."""
    assert array.layout is not None
    return array.layout.size * (1 << (array.lanes - 1).bit_length()) * array.dtype.itemsize


# -- memory ----------------------------------------------------------------------------------------

_LINE: Final = 64


class Memory:
    """Loads and stores of one kernel.

    Attributes
    ----------
    streamed : bool
        Whether a store passed by the caches; such are ordered by a fence alone.
    """

    def __init__(self, expressions: Expressions, apart: AliasScopes) -> None:
        self._expressions = expressions
        self._builder = expressions.builder
        self._aliasing = apart
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
        if lie_together(array, axis, kind.lanes):
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
            f"load {typed}, ptr {pointer}, align {_alignment(array)}{self._aliasing.text(array)}"
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
        if lie_together(array, axis, kind.lanes) and not array.dtype.is_complex:
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
            f"{self._aliasing.text(array)}"
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
        hint, apart = builder.metadata.node("i32 1"), self._aliasing.text(array)
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
            f"{typed} zeroinitializer){self._aliasing.text(x.source)}"
        )
        if x.target.space != "global":
            self._store(typed, loaded, x.target, target)
            return
        name = f"masked.store.{suffix(typed)}.p0"
        at = f"align {_alignment(x.target)} "
        builder.do(
            f"call void @llvm.{name}({typed} {loaded}, ptr {at}{target}, {mask} {inside})"
            f"{self._aliasing.text(x.target)}"
        )

    # -- vectors ----------------------------------------------------------------------------

    def _places(
        self, array: Array, index: tuple[e.Expression, ...], axis: int, lanes: int, first: str
    ) -> list[str]:
        """The offsets of a vector's lanes."""
        if array.layout is not None and array.layout.swizzle:
            moved = (neighbour(index, axis, lane) for lane in range(lanes))
            return [self.addresses.offset(array, each) for each in moved]
        step = self.addresses.along(array, axis)
        return [first, *(self.addresses.moved(first, lane, step) for lane in range(1, lanes))]


def _alignment(array: Array) -> int:
    """Bytes; elements lie where their type does, vectors where elements do."""
    if array.lanes > 1 and array.dtype.kind == "b":
        return 1
    whole = array.lanes & (array.lanes - 1) == 0  # of three lanes there is no such alignment
    return min(_LINE, array.dtype.real.itemsize * (array.lanes if whole else 1))
