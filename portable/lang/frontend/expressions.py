"""Translating operators, comparisons and conditional expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from portable.dtypes import bool_
from portable.lang.frontend import arithmetic, memory, structs, variables
from portable.lang.frontend.conversion import as_bool, constant_truth
from portable.lang.frontend.naming import NameTranslator
from portable.lang.frontend.values import (
    Struct,
    Value,
    View,
    at_run_time,
    describe,
    items_in,
    plain,
    sequence,
)
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s

_BINARY: Final[dict[type[ast.operator], e.BinaryOp]] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "shr",
}
_COMPARE: Final[dict[type[ast.cmpop], e.CompareOp]] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
_METHODS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.MatMult: "matmul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
}
"""The methods of structs by which they take part in operators."""

_UNARY_METHODS: Final[dict[type[ast.unaryop], str]] = {
    ast.USub: "__neg__",
    ast.UAdd: "__pos__",
    ast.Invert: "__invert__",
}
_OPERAND: Final = "the operand of 'and' or 'or'"


class ExpressionTranslator(NameTranslator):
    """Turns operators on what names stand for into constants and values."""

    def visit_binop(self, node: ast.BinOp) -> Any:
        """``x + y`` and the like."""
        x, y = self.visit(node.left), self.visit(node.right)
        self.builder.node = node
        return self.operate(node.op, x, y)

    def operate(self, op: ast.operator, x: Any, y: Any, *, in_place: bool = False) -> Any:
        """A binary operator on what its operands stand for; as in ``x += y`` if `in_place`."""
        x, y = self._number(x), self._number(y)
        name = _METHODS[type(op)]
        method_here = structs.bound_method(x, f"__i{name}__") if in_place else None
        method = (method_here, y) if method_here is not None else structs.operator_of(name, x, y)
        if method is not None:
            return self.call(method[0], [method[1]], {})
        if isinstance(op, ast.Pow):
            return arithmetic.power(self.builder, x, y)
        if isinstance(op, ast.MatMult):
            self.builder.fail("@ is not in the kernel language", "see kl.mma")
        return arithmetic.binary(self.builder, _BINARY[type(op)], x, y)

    def _number(self, x: Any) -> Any:
        """An operand, an array without dimensions being the number that it holds."""
        if not isinstance(x, View) or x.ndim or x.array in self.builder.completions:
            return x
        return memory.load(self.builder, x, ())

    def visit_unaryop(self, node: ast.UnaryOp) -> Any:
        """``-x``, ``+x``, ``~x``, ``not x``."""
        x = self.visit(node.operand)
        self.builder.node = node
        x = self._number(x)
        method = structs.bound_method(x, _UNARY_METHODS.get(type(node.op), ""))
        if method is not None:
            return self.call(method, [], {})
        match node.op:
            case ast.USub():
                return arithmetic.negate(self.builder, x)
            case ast.UAdd():
                return x
            case ast.Invert():
                return arithmetic.invert(self.builder, x)
            case _:
                return arithmetic.logical_not(self.builder, x)

    def visit_compare(self, node: ast.Compare) -> Any:
        """Comparisons, also chained."""
        return self._chained(node, self.visit(node.left), 0)

    def _chained(self, node: ast.Compare, left: Any, i: int) -> Any:
        """The comparisons from number `i` on, each evaluated only where those before it hold."""
        right = self.visit(node.comparators[i])
        self.builder.node = node
        result = self._compare(node.ops[i], left, right)
        if i + 1 == len(node.ops) or result is False:
            return result
        go_on = partial(self._chained, node, right, i + 1)
        if result is True:
            return go_on()
        if result.lanes > 1:
            return arithmetic.binary(self.builder, "and", result, go_on())
        return self._guarded(result, go_on, stop=False)

    def _compare(self, op: ast.cmpop, x: Any, y: Any) -> Any:
        if isinstance(op, ast.Is | ast.IsNot):
            return self._identical(x, y) == isinstance(op, ast.Is)
        if isinstance(op, ast.In | ast.NotIn):
            inside = y if isinstance(y, frozenset | str) else sequence(y)
            if inside is None or at_run_time(x) or at_run_time(inside):
                self.builder.fail("'in' takes compile-time constants", "compare with each item")
            return (x in inside) == isinstance(op, ast.In)
        method = structs.comparison_of(self.builder, _COMPARE[type(op)], x, y)
        if method is not None:
            return self.call(method[0], [method[1]], {})
        if isinstance(op, ast.NotEq) and structs.negates_equality(self.builder, x, y):
            return arithmetic.logical_not(self.builder, self._compare(ast.Eq(), x, y))
        if items_in(x) is not None and items_in(y) is not None:
            return self._compare_items(op, x, y)
        if x is not None and y is not None:
            x, y = self._number(x), self._number(y)
        return arithmetic.compare(self.builder, _COMPARE[type(op)], x, y)

    def _identical(self, x: Any, y: Any) -> bool:
        """``x is y`` of what is known at compile time; whether something is None always is."""
        if x is not None and y is not None:
            for one in (x, y):
                if at_run_time(one):
                    self.builder.fail(
                        f"'is' of {describe(one)}, which is only known at run time",
                        "compare by ==; 'is None' asks for an argument that was left out",
                    )
        return x is y or (isinstance(x, Struct) and x == y)

    def _compare_items(self, op: ast.cmpop, x: Any, y: Any) -> Any:
        """``==`` and ``!=`` of tuples and structs: of each item with its like."""
        if not at_run_time(x) and not at_run_time(y):
            return arithmetic.compare(self.builder, _COMPARE[type(op)], plain(x), plain(y))
        if not isinstance(op, ast.Eq | ast.NotEq):
            self.builder.fail(f"{describe(x)} and {describe(y)} have no order in kernels")
        equal: Any = variables.alike(x, y)
        for one, other in zip(items_in(x) or (), items_in(y) or (), strict=False):
            if equal is False:
                break
            same = self._compare(ast.Eq(), one, other)
            equal = same if equal is True else self._both(equal, same)
        return arithmetic.logical_not(self.builder, equal) if isinstance(op, ast.NotEq) else equal

    def _both(self, x: Any, y: Any) -> Any:
        if isinstance(y, bool):
            return x if y else False
        return arithmetic.binary(self.builder, "and", x, y)

    def visit_boolop(self, node: ast.BoolOp) -> Any:
        """``and`` and ``or``: the right side is evaluated only where it decides.

        Constants are what they are in Python, where ``TILE or 16`` is a number.
        """
        stop = isinstance(node.op, ast.Or)
        result: Any = not stop
        for operand in node.values:
            if isinstance(result, Value):
                result = self._guarded(result, partial(self.visit, operand), stop)
            elif constant_truth(self.builder, result, _OPERAND) is not stop:
                result = self.visit(operand)
        if not isinstance(result, Value):
            constant_truth(self.builder, result, _OPERAND)
        return result

    def _guarded(self, left: Value, evaluate: Callable[[], Any], stop: bool) -> Value:
        condition = as_bool(self.builder, left, _OPERAND, integers=False)
        with self.builder.block() as block:
            decided = as_bool(self.builder, evaluate(), _OPERAND, integers=False)
        if not block:
            return Value(e.Binary("or" if stop else "and", condition, decided))
        result = self.builder.declare("holds", bool_)
        here = self.builder.location
        self.builder.emit(s.Assign(result, condition, here))
        block.append(s.Assign(result, decided, here))
        go_on = e.Unary("not", result) if stop else result
        self.builder.emit(s.If(go_on, tuple(block), (), here))
        return Value(result)

    def visit_ifexp(self, node: ast.IfExp) -> Any:
        """``x if condition else y``: only one side is evaluated."""
        hint, self.builder.hint = self.builder.hint, ""
        condition = self.visit(node.test)
        if not isinstance(condition, Value):
            side = node.body if constant_truth(self.builder, condition) else node.orelse
            self.builder.hint = hint if isinstance(side, ast.Call | ast.IfExp) else ""
            return self.visit(side)
        test = as_bool(self.builder, condition)
        with self.builder.block() as then:
            x = self.visit(node.body)
        with self.builder.block() as orelse:
            y = self.visit(node.orelse)
        if not then and not orelse and items_in(x) is None:
            return arithmetic.select(self.builder, Value(test), x, y)
        key = (self.frame.path, "if", node.lineno, node.col_offset, self.builder.name("either"))
        result = variables.new(self.builder, key, "either", x)
        for block, value in ((then, x), (orelse, y)):
            with self.builder.block() as tail:
                variables.assign(self.builder, result, value, "the conditional expression")
            block.extend(tail)
        self.builder.emit(s.If(test, tuple(then), tuple(orelse), self.builder.location))
        return variables.read(self.builder, result)
