"""Lowers operators that no target language has to those that all have.

Floor division (`division`), shifts by any count, minima that hand NaN on, absolute values that wrap
and conversions that saturate are the language's; below this pass there are only operators that a
language for devices spells in one symbol or call (see `semantics`).
"""

from __future__ import annotations

from dataclasses import replace

from portable.dtypes import DType
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes, walks
from portable.lang.ir.facts import Interval, whole
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import ValueType, Vector, scalar_of
from portable.lang.passes.bindings import Bindings
from portable.lang.passes.division import Known, Name, float_floordiv, float_mod, floordiv, mod
from portable.lang.passes.places import placed
from portable.lang.passes.semantics import Semantics


def lower_operators(kernel: Kernel, semantics: Semantics, bindings: Bindings) -> Kernel:
    """The kernel in operators, and words for places, that every language has.

    Parameters
    ----------
    kernel : Kernel
    semantics : Semantics
        What the language's operators mean.
    bindings : Bindings
        The kernel's names and what they are bound to.
    """
    operators = _Operators(kernel, semantics, bindings)
    return replace(kernel, body=bindings.changed(kernel.body, operators.expression))


class _Operators:
    def __init__(self, kernel: Kernel, semantics: Semantics, bindings: Bindings) -> None:
        self._kernel = kernel
        self._semantics = semantics
        self._facts = bindings.facts
        self._bindings = bindings

    def expression(self, x: e.Expression) -> e.Expression:
        """An expression; what is known is known of the operands as they were."""
        made = walks.map_children(x, self.expression)
        match made:
            case e.Binary(op="floordiv" | "mod"):
                assert isinstance(x, e.Binary)
                return self._division(x, made)
            case e.Binary(op="shl" | "shr"):
                assert isinstance(x, e.Binary)
                return replace(made, y=self._count(x.y, made.y))
            case e.Binary(op="min" | "max" as op) if scalar_of(made.type).is_float:
                return float_extreme(op, made.x, made.y, self._name)
            case e.Call(function="abs") if scalar_of(made.type).is_integer:
                return self._absolute(made.arguments[0])
            case e.Cast():
                return self._cast(made)
            case e.WorkItem():
                expression = placed(made, self._kernel)
                return made if expression is made else self.expression(expression)
            case _:
                return made

    def _name(self, x: e.Expression, hint: str) -> e.Expression:
        return self._bindings.name(x, hint)

    def _division(self, x: e.Binary, made: e.Binary) -> e.Expression:
        if scalar_of(x.type).is_float:
            worked_out = float_mod if x.op == "mod" else float_floordiv
            return worked_out(made.x, made.y, self._name)
        known = Known(self._bounds(x.x), self._bounds(x.y))
        if x.nonnegative:
            known = Known(_natural(known.dividend), _natural(known.divisor))
        lowered = mod if x.op == "mod" else floordiv
        return lowered(made.x, made.y, known, self._name)

    def _bounds(self, x: e.Expression) -> Interval:
        number = nodes.constant_of(x)
        if number is not None:
            return Interval(int(number), int(number))
        return whole(x.type.dtype) if isinstance(x.type, Vector) else self._facts.bounds(x)

    def _count(self, x: e.Expression, made: e.Expression) -> e.Expression:
        """A shift's count, modulo the width."""
        most, number = scalar_of(x.type).bits - 1, nodes.constant_of(x)
        if number is not None:
            return nodes.constant(int(number) & most, x.type)
        if self._bounds(x).inside(Interval(0, most)):
            return made
        return e.Binary("and", made, nodes.constant(most, x.type))

    def _absolute(self, x: e.Expression) -> e.Expression:
        """The absolute value, which of the most negative number is itself.

        Not ``-x if x < 0``: that becomes PTX's ``abs``, and ptxas takes ``abs(x) < 0`` to be false.
        """
        if scalar_of(x.type).kind == "u":
            return x
        x = self._name(x, "number")
        negative = self._name(e.Unary("neg", x), "negative")
        return e.Select(e.Compare("gt", x, negative), x, negative)

    def _cast(self, x: e.Cast) -> e.Expression:
        source, target = scalar_of(x.x.type), scalar_of(x.type)
        if not source.is_float or not target.is_integer or x.in_range:
            return x
        if f"{source.short}.{target.short}" in self._semantics.saturating:
            return x
        number = self._name(x.x, "number")
        result = _saturated(number, x.type, target)
        return result if x.storage is None else e.Cast(result, x.type, x.storage)


def _natural(x: Interval) -> Interval:
    """What is left of an interval of numbers that are not negative."""
    return Interval(max(x.low, 0), max(x.high, 0))


def _saturated(x: e.Expression, kind: ValueType, target: DType) -> e.Expression:
    """Truncated, the ends of the range beyond it, and 0 for NaN."""
    ends = whole(target)
    truncated = e.Cast(x, kind, in_range=True)
    top = nodes.compare("ge", x, float(ends.high + 1))
    capped = e.Select(top, nodes.constant(ends.high, kind), truncated)
    low = float(ends.low)
    beneath = nodes.constant(0, kind)
    if ends.low:
        beneath = e.Select(nodes.compare("le", x, low), nodes.constant(ends.low, kind), beneath)
    return e.Select(nodes.compare("gt", x, low), capped, beneath)


def float_extreme(op: e.BinaryOp, x: e.Expression, y: e.Expression, name: Name) -> e.Expression:
    """The lesser or greater of two floats; a NaN is handed on.

    Parameters
    ----------
    op : {"min", "max"}
    x, y : Expression
    name : callable
        Gives what stands for a value that is used more than once.
    """
    x, y = name(x, "first"), name(y, "second")
    beyond = e.Compare("lt" if op == "min" else "gt", x, y)
    return e.Select(e.Binary("or", beyond, e.Compare("ne", x, x)), x, y)
