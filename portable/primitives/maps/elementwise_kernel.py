"""The one kernel behind every element-wise function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

_HALF = 32
"""Bits of half a word."""
FULL = "full"
"""An operand with a dimension for each of the result's."""
REVERSED = "reversed"
"""The same, the last dimension counted from its end."""
EVERY_OTHER = "every other"
"""The same, its elements every other one of a row that is given whole."""
PAIRS, EVERY_OTHER_PAIR = "pairs", "every other pair"
"""Complex numbers of single precision as words with both parts; and every other one of them."""
ROW = "row"
"""An operand without the last dimension, along which it is the same."""
NUMBER = "number"
"""An operand that is one number."""


@function
def product_of(extents: tuple[kl.Scalar, ...]) -> Any:
    """The number of elements of a shape."""
    total = 1
    for extent in extents:
        total = total * extent
    return total


@function
def unravelled(position: kl.Scalar, shape: tuple[kl.Scalar, ...]) -> Any:
    """The index of the element that comes `position`-th in C order."""
    index = ()
    rest = position
    for d in kl.static_range(len(shape) - 1, 0, -1):
        index = (rest % shape[d], *index)  # type: ignore[assignment]
        rest = rest // shape[d]
    if len(shape) > 0:
        index = (rest, *index)  # type: ignore[assignment]
    return index


@function
def lane_numbers(kind: Any, lanes: int) -> Any:
    """The vector of a type whose elements are the numbers of its lanes."""
    return kl.vector(*[kl.cast(lane, kind) for lane in kl.static_range(lanes)])


@function
def every_other(x: kl.Array, outer: tuple[kl.Scalar, ...], j: kl.Scalar, lanes: int) -> Any:
    """Every other one of a row's elements from twice `j` on, and nothing behind the last of them.

    Two vectors hold them, the second of which begins an element earlier than it could.
    """
    if lanes == 1:
        return x[*outer, 2 * j]
    low = kl.vload(x, *outer, 2 * j, lanes=lanes)
    high = kl.vload(x, *outer, 2 * j + lanes - 1, lanes=lanes)
    first = [low[2 * lane] for lane in kl.static_range(lanes // 2)]
    second = [high[2 * lane + 1] for lane in kl.static_range(lanes // 2)]
    return kl.vector(*first, *second)


@function
def of_words(words: kl.Scalar) -> Any:
    """Complex numbers whose parts are the halves of words, or vectors of such halves."""
    low, high = kl.cast(words, kl.u32), kl.cast(words >> _HALF, kl.u32)
    return kl.complex(kl.bitcast(low, kl.f32), kl.bitcast(high, kl.f32))


@function
def as_words(numbers: kl.Scalar) -> Any:
    """The words whose halves are the parts of complex numbers."""
    low, high = kl.bitcast(kl.real(numbers), kl.u32), kl.bitcast(kl.imag(numbers), kl.u32)
    return kl.cast(high, kl.u64) << _HALF | kl.cast(low, kl.u64)


@function
def taken(
    x: Any, how: str, kind: Any, outer: tuple[kl.Scalar, ...], j: kl.Scalar, lanes: int
) -> Any:
    """An operand's element, or `lanes` of them, converted."""
    if how == NUMBER:
        value = x
    elif how == ROW:
        value = x[*outer]
    elif how == REVERSED:
        last = x.shape[x.ndim - 1] - lanes - j
        ahead = kl.vload(x, *outer, last, lanes=lanes)
        value = kl.vector(*[ahead[lane] for lane in kl.static_range(lanes - 1, -1, -1)])
    elif how == EVERY_OTHER:
        value = every_other(x, outer, j, lanes)
    elif how == PAIRS:
        value = of_words(kl.vload(x, *outer, j, lanes=lanes))
    elif how == EVERY_OTHER_PAIR:
        value = of_words(every_other(x, outer, j, lanes))
    else:
        value = kl.vload(x, *outer, j, lanes=lanes)
    if kind is not None:
        value = kl.cast(value, kind)
    # The parts of a complex number go with each lane of vectors.
    same_in_all = how in (NUMBER, ROW) and not value.dtype.is_complex
    return kl.splat(value, lanes) if same_in_all else value


@dataclass(frozen=True)
class Share:
    """How work-items share rows of elements; a constant of kernels.

    Attributes
    ----------
    lanes : int
        Neighbours that are taken at a time.
    chunk, rows : int
        Neighbours of a row, and rows, for each work-item.
    streaming : bool
        Whether the result is more than the caches hold.
    """

    lanes: int
    chunk: int
    rows: int
    streaming: bool

    def sweep(self, shape: tuple[kl.Scalar, ...], body: Any) -> None:
        """Has `body` do what is this work-item's of a shape: ``body.do(outer, row, j, lanes)``.

        The last dimension is counted in vectors, the rest of a row one by one; the other dimensions
        together are the rows, with the index `outer`, and ``body.row(outer)`` as `row`.
        """
        inner = shape[len(shape) - 1]
        lead = shape[: len(shape) - 1]
        start = kl.global_id(0) * self.chunk
        first = kl.global_id(1) * self.rows
        if start < inner:
            stop = kl.minimum(start + self.chunk, inner)
            # A GPU's work-item has one vector: copies of the loops would cost it registers.
            copies = 1 if self.chunk == self.lanes else 0
            last = kl.minimum(first + self.rows, product_of(lead))
            for row in kl.range(first, last, unroll=copies):
                outer = unravelled(row, lead)
                given = body.row(outer)
                for j, lanes in kl.vector_range(start, stop, lanes=self.lanes, unroll=copies):
                    body.do(outer, given, j, lanes)


@dataclass(frozen=True)
class Body:
    """What a sweep does, of which nothing is known of a row beforehand."""

    def row(self, outer: tuple[kl.Scalar, ...]) -> Any:
        """Nothing."""
        return None


@dataclass(frozen=True)
class Formula:
    """An operation, and what it is done to; a constant of kernels.

    Attributes
    ----------
    op : Function
        The operation.
    how : tuple of str
        Of each operand how it is to be read: `FULL`, ...
    kinds : tuple of (DType or None)
        What each is converted to.
    in_words : bool
        Whether the results are complex, and written as `PAIRS` are read.
    """

    op: Any
    how: Any
    kinds: Any
    in_words: bool = False

    def operands(self, arrays: Any) -> Any:
        """What `taken` is told first, of each."""
        return tuple(zip(arrays, self.how, self.kinds, strict=True))

    def value(self, arrays: Any, outer: tuple[kl.Scalar, ...], j: kl.Scalar, lanes: int) -> Any:
        """The operation on operands' elements, or on `lanes` of them."""
        value = self.op(*[taken(*operand, outer, j, lanes) for operand in self.operands(arrays)])
        return as_words(value) if self.in_words else value


@dataclass(frozen=True)
class _Elements(Body):
    """What a sweep does to one element, or to a vector of them."""

    formula: Formula
    arrays: Any
    out: Any
    streaming: bool

    def do(self, outer: tuple[kl.Scalar, ...], row: Any, j: kl.Scalar, lanes: int) -> None:
        """Works it out."""
        value = self.formula.value(self.arrays, outer, j, lanes)
        kl.vstore(self.out, *outer, j, value, streaming=self.streaming)


@kernel
def elementwise(arrays: Any, out: kl.Array, *, FORMULA: Formula, SHARE: Share) -> None:
    """``out = OP(*arrays)``, the arrays being operands as `FORMULA` reads them."""
    SHARE.sweep(out.shape, _Elements(FORMULA, arrays, out, SHARE.streaming))


# Arithmetic progressions.


@function
def counted(i: kl.Scalar, start: kl.Scalar, step: kl.Scalar, KIND: Any) -> Any:
    """Element `i` of an arithmetic progression."""
    return start + kl.cast(i, KIND) * step


@function
def counted_down(i: kl.Scalar, start: kl.Scalar, step: kl.Scalar, KIND: Any) -> Any:
    """The same, rounded down."""
    return kl.floor(counted(i, start, step, KIND))


@dataclass(frozen=True)
class _Progression(Body):
    """What a sweep does to neighbours of a line."""

    op: Any
    start: Any
    step: Any
    out: Any
    kind: Any

    def do(self, outer: Any, row: Any, j: kl.Scalar, lanes: int) -> None:
        """Works them out."""
        i = lane_numbers(self.kind, lanes) + kl.cast(j, self.kind) if lanes > 1 else j
        value = self.op(i, self.start, self.step, self.kind)
        kl.vstore(self.out, *outer, j, kl.cast(value, self.out.dtype))


@kernel(contract=False)
def spaced(
    start: kl.Scalar,
    step: kl.Scalar,
    last: kl.Scalar | None,
    out: kl.Array,
    *,
    OP: Any,
    KIND: Any,
    SHARE: Any,
) -> None:
    """An arithmetic progression.

    Parameters
    ----------
    start, step : number
        The first element, and the gap between two.
    last : number or None
        The last element; None for that of the formula.
    out : array
        The result, of one dimension.
    OP : Function
        `counted` or `counted_down`.
    KIND : DType
        In which to compute.
    SHARE : Share
        How work-items share the elements.
    """
    SHARE.sweep(out.shape, _Progression(OP, start, step, out, KIND))
    end = out.shape[0] - 1
    if last is not None and kl.global_id(0) == end // SHARE.chunk:
        out[end] = kl.cast(last, out.dtype)


# Matrices with one side of a diagonal left out, and those with ones on it.

BELOW = "below"
"""What lies on a diagonal and below it."""
ABOVE = "above"
"""What lies on a diagonal and above it."""
ON = "on"
"""What lies on a diagonal."""


@dataclass(frozen=True)
class _Triangle(Body):
    """What a sweep does to neighbours of a row."""

    x: Any
    out: Any
    k: Any
    side: str

    def do(self, outer: tuple[kl.Scalar, ...], row: Any, j: kl.Scalar, lanes: int) -> None:
        """Writes those that lie on the side that is kept, and zeros for others."""
        kind = self.out.dtype.register
        value = kl.splat(kl.cast(1, kind), lanes)
        if self.x is not None:
            value = kl.vload(self.x, *outer, j, lanes=lanes)
        columns = lane_numbers(j.dtype, lanes) + j if lanes > 1 else j
        edge = outer[self.out.ndim - 2] + self.k
        kept = columns == edge
        if self.side != ON:
            kept = columns <= edge if self.side == BELOW else columns >= edge
        kl.vstore(self.out, *outer, j, kl.where(kept, value, kl.splat(kl.cast(0, kind), lanes)))


@kernel
def triangle(x: kl.Array | None, out: kl.Array, k: kl.Scalar, *, SIDE: str, SHARE: Any) -> None:
    """The elements of matrices on one side of a diagonal; zeros elsewhere.

    Parameters
    ----------
    x : array or None
        The matrices, of the shape of `out`; None for ones.
    out : array
        The result.
    k : int
        The diagonal, counted from the main one up.
    SIDE : str
        What is kept: `BELOW`, `ABOVE` or `ON`.
    SHARE : Share
        How work-items share the elements.
    """
    SHARE.sweep(out.shape, _Triangle(x, out, k, SIDE))
