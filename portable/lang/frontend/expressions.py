"""Translating expressions: operators, comparisons, conditions and calls.

Calls may be of words, helpers, dtypes, structs and a few of Python's own functions.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from types import MethodType
from typing import Any, Final

import numpy as np

from portable.dtypes import DType, bool_, float32, float64, int32, int64
from portable.lang import words
from portable.lang.arguments.structs import is_struct_type
from portable.lang.frontend import arithmetic, memory, structs, variables
from portable.lang.frontend.conversion import as_bool, cast, constant, constant_truth
from portable.lang.frontend.frames import Closure
from portable.lang.frontend.naming import NameTranslator
from portable.lang.frontend.values import (
    IN_KERNELS,
    Product,
    Range,
    Struct,
    StructView,
    Value,
    View,
    at_run_time,
    describe,
    is_number,
    items_in,
    plain,
    sequence,
)
from portable.lang.function import Function, helper
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import Fragment
from portable.lang.namesakes import namesake
from portable.lang.words.word import Word, word_of

_BY_NODE: Final = {x.node: x for x in (*arithmetic.OPERATORS, *arithmetic.COMPARISONS)}

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
        known = _BY_NODE[type(op)]
        here = structs.bound_method(x, f"__i{known.method}__") if in_place else None
        method = structs.operator_of(known.method, x, y) if here is None else (here, y)
        if method is not None:
            return self.call(method[0], [method[1]], {})
        if isinstance(op, ast.Pow):
            return arithmetic.power(self.builder, x, y)
        if isinstance(op, ast.MatMult):
            self.builder.fail("@ is not in the kernel language", "see kl.mma")
        return arithmetic.binary(self.builder, known.op, x, y)

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
            if inside is None or (isinstance(inside, str) and at_run_time(x)):
                self.builder.fail(
                    f"'in' of {describe(x)} and {describe(y)}", "compare with each item"
                )
            if not at_run_time(x) and not at_run_time(inside):
                return (x in inside) == isinstance(op, ast.In)
            contained = self._any_or_all(any, [self._compare(ast.Eq(), x, item) for item in inside])
            if isinstance(op, ast.NotIn):
                return arithmetic.logical_not(self.builder, contained)
            return contained
        method = structs.comparison_of(self.builder, _BY_NODE[type(op)].op, x, y)
        if method is not None:
            return self.call(method[0], [method[1]], {})
        if isinstance(op, ast.NotEq) and structs.negates_equality(self.builder, x, y):
            return arithmetic.logical_not(self.builder, self._compare(ast.Eq(), x, y))
        if items_in(x) is not None and items_in(y) is not None:
            return self._compare_items(op, x, y)
        if x is not None and y is not None:
            x, y = self._number(x), self._number(y)
        return arithmetic.compare(self.builder, _BY_NODE[type(op)].op, x, y)

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
            return arithmetic.compare(self.builder, _BY_NODE[type(op)].op, plain(x), plain(y))
        if not isinstance(op, ast.Eq | ast.NotEq):
            self.builder.fail(f"{describe(x)} and {describe(y)} have no order in kernels")
        equal: Any = variables.alike(x, y)
        for one, other in zip(items_in(x) or (), items_in(y) or (), strict=False):
            if equal is False:
                break
            same = self._compare(ast.Eq(), one, other)
            equal = same if equal is True else self._both(equal, same)
        return arithmetic.logical_not(self.builder, equal) if isinstance(op, ast.NotEq) else equal

    def _any_or_all(self, function: Any, items: Iterable[Any]) -> Any:
        stop, what = function is any, f"an item of {function.__name__}()"
        op: e.BinaryOp = "or" if stop else "and"
        result: Any = not stop
        for x in items:
            if not isinstance(x, Value):
                if constant_truth(self.builder, x, what) is stop:
                    return stop
                continue
            item = Value(as_bool(self.builder, x, what))
            held = isinstance(result, Value)
            result = arithmetic.binary(self.builder, op, result, item) if held else item
        return result

    def _both(self, x: Any, y: Any) -> Any:
        if isinstance(y, bool):
            return x if y else False
        return arithmetic.binary(self.builder, "and", x, y)

    def visit_boolop(self, node: ast.BoolOp) -> Any:
        """``and`` and ``or``: the right side is evaluated only where it decides.

        Constants are what they are in Python, where ``TILE or 16`` is a number.
        """
        return self._logical(node, self.visit, integers=False)

    def condition(self, node: ast.expr) -> Any:
        """What is only asked whether it holds, as integers do that are not 0."""
        if isinstance(node, ast.BoolOp):
            return self._logical(node, self.condition, integers=True)
        return self.visit(node)

    def _logical(
        self, node: ast.BoolOp, visit: Callable[[ast.expr], Any], *, integers: bool
    ) -> Any:
        stop = isinstance(node.op, ast.Or)
        result: Any = not stop
        for operand in node.values:
            if isinstance(result, Value):
                result = self._guarded(result, partial(visit, operand), stop, integers=integers)
            elif constant_truth(self.builder, result, _OPERAND) is not stop:
                result = visit(operand)
        if not isinstance(result, Value):
            constant_truth(self.builder, result, _OPERAND)
        return result

    def _guarded(
        self, left: Value, evaluate: Callable[[], Any], stop: bool, *, integers: bool = False
    ) -> Value:
        condition = as_bool(self.builder, left, _OPERAND, integers=integers)
        with self.builder.block() as block:
            decided = as_bool(self.builder, evaluate(), _OPERAND, integers=integers)
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
        condition = self.condition(node.test)
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


_LIBRARIES: Final = sys.stdlib_module_names | {"numpy"}
"""Whose functions are written for Python alone."""

_OF_NUMBERS: Final = {abs: 1, bool: 1, divmod: 2, float: 1, int: 1, pow: 2}
"""Python's functions of numbers, and of how many."""

_ON_SEQUENCES: Final = (enumerate, len, product, reversed, tuple, zip)


class CallTranslator(ExpressionTranslator):
    """Carries calls out, or inlines what is called."""

    def visit_call(self, node: ast.Call) -> Any:
        """Words of the language, helper functions, dtypes, and a few of Python's own functions."""
        function = self.visit(node.func)
        hint, self.builder.hint = self.builder.hint, ""
        args = self._starred(node.args)
        kwargs = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.builder.fail("** is not in the kernel language", "write the keywords out")
            kwargs[keyword.arg] = self.visit(keyword.value)
        self.builder.node = node
        self.builder.hint = hint
        result = self.call(function, args, kwargs)
        self.builder.hint = ""
        return result

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What calling something gives."""
        word = word_of(function)
        if word:
            return self._call_word(word, args, kwargs)
        if isinstance(function, Closure):
            return self.call_closure(function, args, kwargs)
        inlined = self._inlined(function)
        if inlined is not None:
            return self.call_function(inlined, args, kwargs)
        if isinstance(function, DType):
            return self._call_dtype(function, args, kwargs)
        if isinstance(function, MethodType) and helper(function.__func__) is not None:
            owner = constant(self.builder, function.__self__)
            if not isinstance(owner, (type, *IN_KERNELS)):
                self.builder.fail(
                    f"{function.__name__} is a method of a {type(owner).__name__}, no struct",
                    "kernels call methods of frozen dataclasses and NamedTuples",
                )
            return self.call(function.__func__, [owner, *args], kwargs)
        if isinstance(function, MethodType) and isinstance(function.__self__, Struct | Fragment):
            return self._call_method(function, args, kwargs)
        if isinstance(function, type):
            structs.refuse_mutable(self.builder, function)
            if is_struct_type(function):
                return structs.make(self.builder, function, args, kwargs)
        if function is dataclasses.replace and len(args) == 1:
            return structs.replaced(self.builder, args[0], kwargs)
        if function is dataclasses.astuple and len(args) == 1 and not kwargs:
            return structs.as_tuple(self.builder, args[0])
        method = structs.bound_method(function, "__call__")
        if method is not None:
            return self.call(method, args, kwargs)
        return self._call_python(function, args, kwargs)

    def _inlined(self, function: Any) -> Function | None:
        """What stands for a call; None where it is carried out, or cannot be."""
        return None if _module_of(function) in _LIBRARIES else helper(function)

    def _call_word(self, word: Word, args: list[Any], kwargs: dict[str, Any]) -> Any:
        from portable.lang.frontend.handlers import HANDLERS

        try:
            given, left_out = word.binder.bind(args, kwargs)
        except TypeError as error:
            self.builder.fail(f"kl.{word.name}{_without_types(word.binder.signature)}: {error}")
        return HANDLERS[word.name](self.builder, **given, **left_out)

    def _call_dtype(self, dtype: DType, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) != 1 or kwargs:
            pair = dtype.is_complex and len(args) == 2
            hint = "complex(x, y) makes one of two" if pair else ""
            self.builder.fail(f"kl.{dtype.short}(x) converts one number", hint)
        return cast(self.builder, args[0], dtype)

    def _call_method(self, method: MethodType, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What an attribute of a matrix or a struct gave."""
        try:
            inspect.signature(method).bind(*args, **kwargs)
        except TypeError as error:
            function = method.__func__
            name = getattr(function, "func", function).__name__.lstrip("_")
            if isinstance(method.__self__, Fragment):
                name += " of a kl.matrix"
            self.builder.fail(f"{name}: {error}")
        return method(*args, **kwargs)

    def _call_python(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if function in (abs, len) and len(args) == 1 and not kwargs:
            method = structs.bound_method(args[0], f"__{function.__name__}__")
            if method is not None:
                return self.call(method, [], {})
        if function is range:
            return self.call(words.range, args, kwargs)
        if function is type and len(args) == 1 and isinstance(args[0], Struct):
            return args[0].kind
        if function is super and not args:
            return structs.parent(self.builder, self.frame)
        if function in (min, max, sum, any, all) and len(args) == 1 and not kwargs:
            items = sequence(args[0])
            if items is None and isinstance(args[0], Value) and args[0].lanes > 1:
                items = tuple(self._lane(args[0], i) for i in range(args[0].lanes))
            if items is not None and at_run_time(items):
                return self._folded(function, items)
        if function in (min, max) and len(args) >= 2 and not kwargs:
            op: e.BinaryOp = "min" if function is min else "max"
            result = args[0]
            for x in args[1:]:
                result = arithmetic.binary(self.builder, op, result, x)
            return result
        if function in _OF_NUMBERS and _OF_NUMBERS[function] == len(args) and not kwargs:
            numbers = tuple(map(self._number, args))
            if at_run_time(numbers):
                return self._of_numbers(function, numbers)
        if function is len and len(args) == 1 and isinstance(args[0], View | StructView):
            view = args[0] if isinstance(args[0], View) else args[0].first
            return self._view_attribute(view, "shape")[0]
        if function is reversed and len(args) == 1 and not kwargs and _goes_by_one(args[0]):
            return self._reversed(args[0])
        if function is product and any(isinstance(x, Range) for x in args) and not kwargs:
            return Product(tuple(args))
        if function in _ON_SEQUENCES and args and all(sequence(x) is not None for x in args):
            return self._on_sequences(function, args, kwargs)
        return self._constant_call(function, args, kwargs)

    def _reversed(self, over: Range) -> Range:
        """A range of step 1 from its last number to its first."""
        last, end = (arithmetic.binary(self.builder, "sub", x, 1) for x in (over.stop, over.start))
        return dataclasses.replace(over, start=last, stop=end, step=-1)

    def _of_numbers(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Python's functions of numbers, at least one of which is only known at run time."""
        x = args[0]
        if function is abs:
            return arithmetic.call(self.builder, "abs", x)
        if function is pow:
            return self.operate(ast.Pow(), *args)
        if function is divmod:
            return self.operate(ast.FloorDiv(), *args), self.operate(ast.Mod(), *args)
        if function is bool:
            if not is_number(x):
                self.builder.fail(
                    f"bool takes a number, not {describe(x)}", "compare: write x != 0"
                )
            return self._compare(ast.NotEq(), x, 0) if x.dtype is not bool_ else x
        if isinstance(x, Value) and (x.dtype.is_float if function is float else x.dtype.is_integer):
            return x
        narrow, wide = (float32, float64) if function is float else (int32, int64)
        is_wide = isinstance(x, Value) and x.dtype.itemsize > 4
        return cast(self.builder, x, wide if is_wide else narrow)

    def _folded(self, function: Any, items: tuple[Any, ...]) -> Any:
        """Python's `sum`, `min`, `max`, `any` and `all` of what is only known at run time."""
        if function in (any, all):
            return self._any_or_all(function, items)
        result = items[0]
        for x in items[1:]:
            if function is sum:
                result = self.operate(ast.Add(), result, x)
            else:
                result = self._call_python(function, [result, x], {})
        return result

    def _on_sequences(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Python's functions of sequences, whose items may be anything."""
        given = [sequence(x) for x in args]
        try:
            result = function(*given, **kwargs)
        except (TypeError, ValueError) as error:
            self.builder.fail(f"{function.__name__}: {error}")
        return tuple(result) if isinstance(result, Iterator) else result

    def _constant_call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A function of Python itself on constants, evaluated at compile time."""
        name = getattr(function, "__name__", repr(function))
        given = [*args, *kwargs.values()]
        constants = not any(map(at_run_time, given))
        module = getattr(function, "__module__", None)
        if constants and module in ("builtins", "math") and function is not print:
            try:
                named = {name: plain(x) for name, x in kwargs.items()}
                result = function(*map(plain, args), **named)
                result = tuple(result) if isinstance(result, Iterator | list) else result
                return constant(self.builder, result)
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                self.builder.fail(f"{name}: {error}")
        if constants and (function is np.finfo or function is np.iinfo):
            return function(*(x.numpy if isinstance(x, DType) else x for x in given))
        word = namesake(function)
        if word is not None:
            return self.call(word, args, kwargs)
        what = name if callable(function) else describe(function)
        self.builder.fail(f"{what} cannot be called in a kernel", _call_hint(function, name))


def _goes_by_one(x: Any) -> bool:
    """Whether it is a range of step 1."""
    return isinstance(x, Range) and isinstance(x.step, int) and x.step == 1


def _call_hint(function: Any, name: str) -> str:
    if function is sum:
        return "it adds up tuples and vectors; sum an array in a loop, or by primitives.reduce"
    if hasattr(words, name):
        return f"write kl.{name}(...)"
    if getattr(math, name, None) is function:
        return f"the language has no {name}: its functions are in portable.lang, such as kl.exp"
    if not callable(function):
        return ""
    if getattr(builtins, name, None) is function:
        return "Python's own functions take compile-time constants here; write it as a loop"
    if _draws(function):
        return "kl.random.uniform(seed, i) gives four numbers, others for each i"
    if _module_of(function) == "numpy":
        return (
            "NumPy's functions are of whole arrays; a kernel says what is done with one element, "
            "and has kl.private(shape, dtype) for an array of its own"
        )
    if hasattr(function, "__wrapped__"):
        return "kernels call functions as they were defined: leave other decorators out"
    return "kernels call functions that are defined by 'def' or 'lambda', and the words of kl"


def _draws(function: Any) -> bool:
    """Whether it draws random numbers, of Python or NumPy."""
    owner = type(getattr(function, "__self__", None))
    return any("random" in (getattr(x, "__module__", None) or "") for x in (function, owner))


def _module_of(function: Any) -> str:
    """The package that a function is from."""
    return (getattr(function, "__module__", None) or "").partition(".")[0]


def _without_types(signature: inspect.Signature) -> inspect.Signature:
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return inspect.Signature(plain)
