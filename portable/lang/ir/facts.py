"""What can be proved of integer expressions: bounds, and powers of two that divide them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from portable.dtypes import DType, int64, uint64
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.nodes import scalar_type
from portable.lang.ir.pipeline import Pipeline
from portable.lang.ir.types import ValueType, Vector
from portable.lang.ir.walks import all_statements

# Bounds of integer expressions, to know which can neither be negative nor wrap.
#
# Work-item indices, extents and padded sizes stay a margin below 2^31 in kernels with 32-bit
# indices (see `portable.lang.launch`), so that sums with small constants do not wrap either.

INDEX_MARGIN: Final = 4096
"""How far below 2^31 every index of a kernel with 32-bit indices stays."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers from `low` to `high`, both included."""

    low: int
    high: int

    def inside(self, other: Interval) -> bool:
        """Whether all of this lies in `other`."""
        return other.low <= self.low and self.high <= other.high


Leaf = Callable[[e.Variable | e.WorkItem | e.Extent], Interval | None]
"""What is known of a variable, a work-item's place or an extent; None where nothing is."""


@cache
def whole(kind: DType) -> Interval:
    """The range of an integer type."""
    if kind.kind == "u":
        return Interval(0, 2**kind.bits - 1)
    return Interval(-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1)


def index_limit(kind: DType) -> int:
    """The greatest index, extent or padded size in kernels of an index type."""
    return 2**62 if kind in (int64, uint64) else 2**31 - INDEX_MARGIN


def is_integer(kind: ValueType) -> bool:
    """Whether this is the type of an integer scalar."""
    return not isinstance(kind, Vector) and kind.is_integer


def known_variables(known: Mapping[e.Variable, Interval]) -> Leaf:
    """A leaf that looks variables up and bounds places and extents by the index limit."""

    def leaf(x: e.Variable | e.WorkItem | e.Extent) -> Interval | None:
        return known.get(x) if isinstance(x, e.Variable) else Interval(0, index_limit(x.type))

    return leaf


def interval(x: e.Expression, leaf: Leaf) -> Interval:
    """Bounds of an integer scalar, wrapped to its type; the type's range where nothing is known."""
    kind = scalar_type(x)
    return _wrapped(x, leaf, kind)


def _wrapped(x: e.Expression, leaf: Leaf, kind: DType) -> Interval:
    bounds, limits = _exact(x, leaf, kind) if kind.is_integer else None, whole(kind)
    return bounds if bounds is not None and bounds.inside(limits) else limits


def exact(x: e.Expression, leaf: Leaf) -> Interval | None:
    """Bounds of the outermost operation without wrapping; None where nothing is known."""
    kind = x.type
    return _exact(x, leaf, kind) if isinstance(kind, DType) and kind.is_integer else None


def _exact(x: e.Expression, leaf: Leaf, kind: DType) -> Interval | None:
    """The same of an integer of a type, which that of most operands is as well."""
    match x:
        case e.Const():
            return Interval(int(x.value), int(x.value))
        case e.Variable() | e.WorkItem() | e.Extent():
            return leaf(x)
        case e.Binary():
            return _binary(x.op, _wrapped(x.x, leaf, kind), _wrapped(x.y, leaf, kind))
        case e.Unary(op="neg"):
            inner = _wrapped(x.x, leaf, kind)
            return Interval(-inner.high, -inner.low)
        case e.Unary(op="invert") if kind.kind == "i":
            inner = _wrapped(x.x, leaf, kind)
            return Interval(-1 - inner.high, -1 - inner.low)
        case e.Select():
            a, b = _wrapped(x.x, leaf, kind), _wrapped(x.y, leaf, kind)
            return Interval(min(a.low, b.low), max(a.high, b.high))
        case e.Cast() if is_integer(x.x.type) and x.storage is None:
            return interval(x.x, leaf)
        case e.AssumeUniform():
            return _wrapped(x.x, leaf, kind)
        case _:
            return None


def _hull(corners: list[int]) -> Interval:
    return Interval(min(corners), max(corners))


def _quotient(x: int, y: int) -> int:
    """``x / y``, truncated; `y` is positive."""
    return x // y if x >= 0 else -(-x // y)


def _binary(op: e.BinaryOp, a: Interval, b: Interval) -> Interval | None:
    match op:
        case "add":
            return Interval(a.low + b.low, a.high + b.high)
        case "sub":
            return Interval(a.low - b.high, a.high - b.low)
        case "mul":
            return _hull([a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high])
        case "floordiv" if b.low >= 1:
            return _hull([a.low // b.low, a.low // b.high, a.high // b.low, a.high // b.high])
        case "mod" if b.low >= 1:
            return Interval(0, min(a.high, b.high - 1) if a.low >= 0 else b.high - 1)
        case "quot" if b.low >= 1:
            return _hull([_quotient(x, y) for x in (a.low, a.high) for y in (b.low, b.high)])
        case "rem" if b.low >= 1:
            most = b.high - 1
            return Interval(max(min(a.low, 0), -most), min(max(a.high, 0), most))
        case "min":
            return Interval(min(a.low, b.low), min(a.high, b.high))
        case "max":
            return Interval(max(a.low, b.low), max(a.high, b.high))
        case "and" if a.low >= 0 or b.low >= 0:
            return Interval(0, min(x.high for x in (a, b) if x.low >= 0))
        case "shr" if b.low == b.high and 0 <= b.low < 32:
            return Interval(a.low >> b.low, a.high >> b.low)
        case "shr" if a.low >= 0:
            return Interval(0, a.high)
        case "shl" if b.low == b.high and 0 <= b.low < 32 and a.low >= 0:
            return Interval(a.low << b.low, a.high << b.low)
        case _:
            return None


_EXACT = 64


def _twos(value: int) -> int:
    """How often 2 divides `value`; `_EXACT` for 0."""
    return _EXACT if value == 0 else min(_EXACT, (value & -value).bit_length() - 1)


class Facts:
    """Interval and divisors of a kernel's integer expressions, for all work-items and rounds.

    Names are unique in a kernel or mean the same wherever they are bound, so one pass over
    the statements suffices for names bound once; variables that are reassigned have no bounds, and
    the common divisor of all that is assigned to them.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._workgroup = kernel.workgroup
        self._ragged = kernel.ragged
        self._sub_group_size = kernel.sub_group_size
        self._bounds: dict[str, Interval | None] = {}
        self._twos: dict[str, int] = {}
        self._learn_bounds(kernel.body)
        self._learn_twos(kernel.body)

    def learn(self, var: e.Variable, value: e.Expression) -> None:
        """Takes in a name that a pass has bound since."""
        if is_integer(var.type):
            self._bounds[var.name] = self.bounds(value)
            self._twos[var.name] = self.twos(value)

    # -- bounds -----------------------------------------------------------------------------

    def bounds(self, x: e.Expression) -> Interval:
        """Interval of an integer scalar expression, wrapped to its type."""
        return interval(x, self._leaf)

    def exact(self, x: e.Expression) -> Interval | None:
        """Interval of the outermost operation without wrapping; None where nothing is known."""
        return exact(x, self._leaf)

    def fits(self, x: e.Expression) -> bool:
        """Whether the exact result of an integer operation, its operands given, never wraps."""
        kind, value = x.type, self.exact(x)
        return isinstance(kind, DType) and value is not None and value.inside(whole(kind))

    def _leaf(self, x: e.Variable | e.WorkItem | e.Extent) -> Interval | None:
        match x:
            case e.Variable():
                return self._bounds.get(x.name)
            case e.WorkItem():
                return self._work_item(x)
            case _:
                return Interval(0, index_limit(x.type))

    def _work_item(self, x: e.WorkItem) -> Interval:
        items = self._workgroup[0] * self._workgroup[1] * self._workgroup[2]
        groups = -(-items // self._sub_group_size)
        top = index_limit(x.type)
        match x.word:
            case "local_id":
                return Interval(0, self._workgroup[x.dim] - 1)
            case "local_linear_id":
                return Interval(0, items - 1)
            case "sub_group_local_id":
                return Interval(0, self._sub_group_size - 1)
            case "sub_group_id":
                return Interval(0, groups - 1)
            case "group_id":
                return Interval(0, top // self._workgroup[x.dim])
            case "num_groups":
                return Interval(1, top // self._workgroup[x.dim] + 1)
            case "global_size":
                return Interval(1, top)
            case _:
                return Interval(0, top)

    def _learn_bounds(self, body: s.Block) -> None:
        for statement in all_statements(body):
            for var in statement.sets():
                self._bounds[var.name] = None
            for var in statement.binds():
                if is_integer(var.type):
                    self._meet(var.name, self._bound(statement, var))

    def _bound(self, statement: s.Statement, var: e.Variable) -> Interval | None:
        """What a statement gives a new name; None where nothing is known."""
        match statement:
            case s.Let(value=value):
                return self.bounds(value)
            case s.For() | Pipeline():
                return self._loop(statement)
            case s.ForElements(fragment=fragment, row=row):
                return Interval(0, fragment.shape[0 if var == row else 1] - 1)
            case _:
                return None

    def _meet(self, name: str, bounds: Interval | None) -> None:
        """A name bound in several places has bounds that cover all."""
        if name not in self._bounds:
            self._bounds[name] = bounds
            return
        old = self._bounds[name]
        both = None
        if old is not None and bounds is not None:
            both = Interval(min(old.low, bounds.low), max(old.high, bounds.high))
        self._bounds[name] = both

    def _loop(self, loop: s.For | Pipeline) -> Interval | None:
        start, stop, step = (self.bounds(x) for x in (loop.start, loop.stop, loop.step))
        if step.low > 0:
            return Interval(start.low, max(start.low, stop.high - 1))
        if step.high < 0:
            return Interval(min(start.high, stop.low + 1), start.high)
        return None

    # -- divisors ---------------------------------------------------------------------------

    def multiple_of(self, x: e.Expression) -> int:
        """The greatest power of two known to divide an integer scalar expression."""
        return int(2 ** self.twos(x))

    def twos(self, x: e.Expression) -> int:
        """Its exponent; `_EXACT` for what is always 0."""
        match x:
            case e.Const(value=value):
                return _twos(int(value))
            case e.Variable():
                return self._twos.get(x.name, 0)
            case e.WorkItem():
                return self._work_item_twos(x)
            case e.Unary(op="neg") | e.AssumeUniform():
                return self.twos(x.x)
            case e.Binary():
                return self._binary_twos(x)
            case e.Select():
                return min(self.twos(x.x), self.twos(x.y))
            case e.Cast() if is_integer(x.x.type) and is_integer(x.type):
                return self.twos(x.x)
            case _:
                return 0

    def _work_item_twos(self, x: e.WorkItem) -> int:
        if x.word == "local_id" and self._workgroup[x.dim] == 1:
            return _EXACT
        if x.word == "global_size" and x.dim not in self._ragged:
            return _twos(self._workgroup[x.dim])
        return 0

    def _binary_twos(self, x: e.Binary) -> int:
        a, b = self.twos(x.x), self.twos(x.y)
        match x.op:
            case "add" | "sub" | "or" | "xor" | "min" | "max" | "mod" | "rem":
                return min(a, b)
            case "mul":
                return min(_EXACT, a + b)
            case "and":
                return max(a, b)
            case "shl" if isinstance(x.y, e.Const) and isinstance(x.type, DType):
                return min(_EXACT, a + int(x.y.value) % x.type.bits)
            case "shr" if isinstance(x.y, e.Const) and isinstance(x.type, DType):
                return max(0, a - int(x.y.value) % x.type.bits) if a < _EXACT else _EXACT
            case _:
                return 0

    def _learn_twos(self, body: s.Block) -> None:
        """Starts from the best and weakens until nothing changes."""
        given = [pair for x in all_statements(body) for pair in _integer_bindings(x)]
        unknown = {name for name, value in given if value is None}
        known = [(n, v) for n, v in given if v is not None and n not in unknown]
        self._twos = {name: _EXACT for name, _ in known}
        changed = True
        while changed:
            changed = False
            for name, value in known:
                twos = self.twos(value)
                if twos < self._twos[name]:
                    self._twos[name] = twos
                    changed = True


def _integer_bindings(statement: s.Statement) -> list[tuple[str, e.Expression | None]]:
    """What integer names are given: None where their divisors are not known."""
    match statement:
        case s.Let(var=var, value=value) | s.Assign(var=var, value=value):
            return [(var.name, value)] if is_integer(var.type) else []
        case s.For(var=var, start=start, step=step) | Pipeline(var=var, start=start, step=step):
            return [(var.name, start), (var.name, step)]
        case _:
            return [(var.name, None) for var in (*statement.binds(), *statement.sets())]
