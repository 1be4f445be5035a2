"""Where an element of an array lies: offsets in elements, their divisors, pointers to it."""

from __future__ import annotations

from collections.abc import Sequence

from portable.lang.emit.context import Code, Level, infix, wrapped
from portable.lang.emit.expressions import Expressions
from portable.lang.ir import expressions as e
from portable.lang.ir.types import Array, Layout, Turns, chunk_bytes


def lie_together(array: Array, axis: int, lanes: int) -> bool:
    """Whether so many neighbours along an axis follow each other in memory."""
    layout, size = array.layout, array.dtype.itemsize
    if layout is None:
        return array.strides[axis] == "unit"
    return layout.strides[axis] == 1 and (not layout.swizzle or lanes * size <= chunk_bytes(size))


class Addresses:
    """Works out offsets for one kernel.

    Offsets are plain signed sums: the index type was chosen so that no offset of an element wraps.
    """

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._facts = expressions.context.facts
        self._zero = Code("0")

    def offset(self, array: Array, index: Sequence[e.Expression]) -> Code:
        """The offset of an element, in elements (in vectors for private arrays of vectors)."""
        if array.layout is not None and array.layout.swizzle:
            return self._in_swizzle(array, array.layout, index)
        return self._linear(array, index)

    def _linear(self, array: Array, index: Sequence[e.Expression]) -> Code:
        terms = [self._term(array, dim, x) for dim, x in enumerate(index)]
        present = [term for term in terms if term is not None]
        total = self._zero if not present else present[0]
        for term in present[1:]:
            total = infix("+", Level.SUM, total, term)
        return total

    def _term(self, array: Array, dim: int, x: e.Expression) -> Code | None:
        if isinstance(x, e.Const) and x.value == 0:
            return None
        stride = self._stride(array, dim)
        if stride is None:
            return None
        if stride.text == "1":
            return self._expressions.code(x)
        if isinstance(x, e.Const) and stride.text.isdigit():
            return Code(str(int(x.value) * int(stride.text)))
        return infix("*", Level.PRODUCT, self._expressions.code(x), stride)

    def _stride(self, array: Array, dim: int) -> Code | None:
        if array.layout is not None:
            return Code(str(array.layout.strides[dim]))
        match array.strides[dim]:
            case "zero":
                return None
            case "unit":
                return Code("1")
            case _:
                context = self._expressions.context
                return Code(context.size_argument("stride", array, dim))

    def _in_swizzle(self, array: Array, layout: Layout, index: Sequence[e.Expression]) -> Code:
        """The offset; of rows a multiple of the pattern's height apart, as one plus a constant."""
        turns = Turns.of(layout.swizzle, array.dtype.itemsize)
        row = swizzled_row(layout, array.shape)
        base, further = base_and_constant(index[row])
        apart = further if further > 0 and further % turns.height == 0 else 0
        near = [base if apart and dim == row else x for dim, x in enumerate(index)]
        total = self._turned(self._linear(array, near), near[row], turns)
        distance = Code(str(apart * layout.strides[row]))
        return infix("+", Level.SUM, total, distance) if apart else total

    def _turned(self, linear: Code, row: e.Expression, turns: Turns) -> Code:
        """An offset with its chunk turned: what its row begins with is a multiple of all chunks."""
        turn = self._expressions.code(row)
        if turns.shift:
            turn = infix(">>", Level.SHIFT, turn, Code(str(turns.shift)))
        turn = infix("&", Level.BIT_AND, turn, Code(str(turns.mask)))
        if turns.chunk > 1:
            turn = infix("*", Level.PRODUCT, turn, Code(str(turns.chunk)))
        return infix("^", Level.BIT_XOR, linear, turn)

    def along(self, array: Array, axis: int) -> str:
        """What one step along an axis adds to the offset; not for swizzled arrays' rows."""
        stride = self._stride(array, axis)
        return "0" if stride is None else stride.text

    def alignment(self, array: Array, index: Sequence[e.Expression]) -> int:
        """Bytes, at most 16, that the element's address is known to be a multiple of."""
        size = array.dtype.itemsize
        if array.space == "private":
            return size
        if array.space == "global" and not array.aligned:
            return size
        twos = min((self._dim_twos(array, d, x) for d, x in enumerate(index)), default=64)
        if array.layout is not None and array.layout.swizzle:
            twos = min(twos, (chunk_bytes(size) // size).bit_length() - 1)
        return int(min(16, size * 2 ** min(twos, 5)))

    def _dim_twos(self, array: Array, dim: int, x: e.Expression) -> int:
        twos = self._facts.twos(x)
        if array.layout is not None:
            stride = array.layout.strides[dim]
            return twos + (stride & -stride).bit_length() - 1 if array.shape[dim] > 1 else 64
        return twos if array.strides[dim] == "unit" else 64

    def pointer(self, array: Array, offset: Code, component: int | None = None) -> Code:
        """A pointer to an element, or to a component of a complex one."""
        name = self._expressions.context.array_name(array)
        if array.dtype.is_complex:
            offset = self.component(offset, component or 0)
        if offset.text == "0":
            return Code(name)
        return infix("+", Level.SUM, Code(name), offset)

    def component(self, offset: Code, component: int) -> Code:
        """The offset of a component of a complex element, which needs 64 bits."""
        wide = self._expressions.dialect.types["i64"]
        doubled = Code(f"2 * ({wide}){wrapped(offset, Level.UNARY)}", Level.PRODUCT)
        return infix("+", Level.SUM, doubled, Code("1")) if component else doubled

    def element(self, array: Array, offset: Code, component: int | None = None) -> Code:
        """The element as an lvalue of its type in memory."""
        if array.dtype.is_complex:
            offset = self.component(offset, component or 0)
        return Code(f"{self._expressions.context.array_name(array)}[{offset.text}]")


def base_and_constant(x: e.Expression) -> tuple[e.Expression, int]:
    """An index as another one and a constant to add."""
    match x:
        case e.Const(value=value):
            return e.Const(0, x.type), int(value)
        case e.Binary(op="add", x=base, y=e.Const(value=value)):
            return base, int(value)
        case _:
            return x, 0


def swizzled_row(layout: Layout, shape: tuple[int, ...]) -> int:
    """The dimension of second smallest stride."""
    order = sorted(range(len(shape)), key=lambda dim: layout.strides[dim])
    return order[1]
