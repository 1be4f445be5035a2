"""Where elements lie, and what LLVM is told of which accesses can meet."""

from __future__ import annotations

from collections.abc import Sequence

from portable.dtypes import int32
from portable.lang.emit.addresses import swizzled_row, unit_axis
from portable.lang.emit.llvm.builder import Context, memory_type, value_type
from portable.lang.emit.llvm.expressions import Expressions
from portable.lang.ir import expressions as e
from portable.lang.ir.types import Array, Turns, Vector

__all__ = ["Addresses", "Apart", "bytes_of", "element_type", "unit_axis"]


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
                return self._context.size(e.Stride(array, dim, self._context.kernel.index_type))

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


class Apart:
    """What tells LLVM that accesses of different arrays do not meet, and which rounds are apart.

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
