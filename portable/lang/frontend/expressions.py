"""Translating Python expressions."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from enum import Enum
from functools import partial
from types import MethodType, ModuleType
from typing import Any, Final

from portable import dtypes, lang
from portable.dtypes import DType, bool_
from portable.lang import words
from portable.lang.frontend import arithmetic, memory, structs, variables
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import as_bool, cast, constant, constant_truth
from portable.lang.frontend.frame import Frame
from portable.lang.frontend.values import (
    IN_KERNELS,
    Complex,
    Range,
    Struct,
    StructView,
    Value,
    View,
    at_run_time,
    describe,
    items_in,
    plain,
    sequence,
)
from portable.lang.frontend.variables import Unassigned
from portable.lang.function import Function
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import LANES, Fragment, Vector
from portable.lang.structs import field_names

__all__ = ["ExpressionTranslator"]

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
_CAPTURED: Final = (bool, int, float, complex, str, tuple, DType, Enum, ModuleType, Function)
_ON_SEQUENCES: Final = (enumerate, len, reversed, tuple, zip)
_OPERAND: Final = "the operand of 'and' or 'or'"
_ELSEWHERE: Final = {
    "block_dim": "local_size",
    "block_idx": "group_id",
    "cas": "atomic_compare_exchange",
    "grid": "global_id",
    "grid_dim": "num_groups",
    "max": "maximum",
    "min": "minimum",
    "program_id": "group_id",
    "shared": "local",
    "sync_threads": "barrier",
    "syncthreads": "barrier",
    "thread_idx": "local_id",
    "threadfence": "fence",
}
"""What other kernel languages call words of this one."""

_REFUSED: Final[dict[type[ast.expr], str]] = {
    ast.List: "use a tuple of constants, or kl.private for an array",
    ast.Dict: "use keyword-only arguments for constants",
    ast.Set: "use a tuple",
    ast.ListComp: "use a for loop",
    ast.GeneratorExp: "use a for loop",
    ast.DictComp: "use a for loop",
    ast.SetComp: "use a for loop",
    ast.Lambda: "define a function marked @portable.function",
    ast.NamedExpr: "assign in a statement of its own",
    ast.JoinedStr: "give kl.print its pieces one by one",
    ast.Await: "kernels have no coroutines",
    ast.Yield: "kernels have no generators",
    ast.YieldFrom: "kernels have no generators",
}


class ExpressionTranslator(ABC):
    """Turns expression nodes into constants, values and views; statements are a subclass's."""

    builder: Builder
    frame: Frame

    # -- given by the subclass -------------------------------------------------------------

    @abstractmethod
    def call_function(self, function: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Inlines a helper function."""

    @abstractmethod
    def map_fragment(self, fragment: Fragment, function: Any, *more: Any) -> None:
        """Applies a helper function to the elements of a matrix, each with the same arguments."""

    # -- dispatch --------------------------------------------------------------------------

    def visit(self, node: ast.expr) -> Any:
        """What an expression stands for; run-time effects are emitted as they come."""
        self.builder.location = self.frame.source.location(node)
        self.builder.source_line = self.frame.source.line(node.lineno)
        method: Callable[[Any], Any] | None = getattr(
            self, f"visit_{type(node).__name__.lower()}", None
        )
        if method is None:
            hint = _REFUSED.get(type(node), "")
            self.builder.fail(f"{type(node).__name__} is not in the kernel language", hint)
        return method(node)

    def visit_constant(self, node: ast.Constant) -> Any:
        """A literal."""
        if isinstance(node.value, bytes):
            self.builder.fail("bytes are not in the kernel language")
        return node.value

    def visit_name(self, node: ast.Name) -> Any:
        """A local name, else one captured from the surrounding Python as a constant."""
        if node.id in self.frame.env:
            found = self.frame.env[node.id]
            if isinstance(found, Unassigned):
                self.builder.fail(
                    f"{node.id} may be unassigned here: {found.why}",
                    found.hint or f"give {node.id} a value before the branch or loop",
                )
            return variables.read(self.builder, found)
        if node.id not in self.frame.outer:
            known = [*self.frame.env, *self.frame.outer]
            self.builder.fail(f"the name {node.id} is not defined", _nearest(node.id, known))
        return self._captured(node.id, self.frame.outer[node.id])

    def _captured(self, name: str, found: Any) -> Any:
        found = constant(self.builder, found)
        if isinstance(found, Value | Complex | Struct):
            return found
        if found is None or found is words.target or isinstance(found, _CAPTURED):
            return found
        if _is_kernel(found):
            self.builder.fail(
                f"{name} is a kernel, and kernels launch no others",
                "put what both need into a function marked @portable.function",
            )
        if callable(found):
            return found
        structs.refuse_mutable(self.builder, type(found))
        self.builder.fail(
            f"{name}, a {type(found).__name__}, cannot be captured by a kernel",
            "pass arrays as arguments and other things as keyword-only constants",
        )

    def visit_attribute(self, node: ast.Attribute) -> Any:
        """Attributes of arrays, numbers, modules and ``kl.target``."""
        base = self.visit(node.value)
        self.builder.location = self.frame.source.location(node)
        if base is words.target:
            return self._capability(node.attr)
        if isinstance(base, View):
            return self._view_attribute(base, node.attr)
        if isinstance(base, Value | Complex):
            return self._number_attribute(base, node.attr)
        if isinstance(base, Fragment):
            return self._fragment_attribute(base, node.attr)
        if isinstance(base, Struct):
            return self._struct_attribute(base, node.attr)
        if isinstance(base, StructView):
            return self._struct_view_attribute(base, node.attr)
        try:
            return self._captured(node.attr, getattr(base, node.attr))
        except AttributeError:
            known = _ELSEWHERE.get(node.attr, "") if base is lang else ""
            hint = f"write kl.{known}" if known else _nearest(node.attr, dir(base))
            self.builder.fail(f"{describe(base)} has no attribute {node.attr}", hint)

    def _capability(self, name: str) -> Any:
        found = getattr(self.builder.capabilities, name, None)
        if found is None or callable(found):
            self.builder.fail(f"kl.target has no capability {name}")
        return found

    def _view_attribute(self, view: View, name: str) -> Any:
        match name:
            case "shape":
                return tuple(x if isinstance(x, int) else Value(x) for x in view.extents)
            case "ndim":
                return view.ndim
            case "dtype":
                return view.array.dtype
            case "T" if view.ndim == 2:
                return View(view.array, view.starts, view.kept[::-1], view.extents[::-1])
            case _:
                self.builder.fail(
                    f"arrays in kernels have no attribute {name}", "they have shape, ndim, dtype, T"
                )

    def _struct_attribute(self, struct: Struct, name: str) -> Any:
        """A field of a struct, or what its class has."""
        if name in field_names(struct.kind):
            return self._known(name, struct.field(name))
        try:
            return self._known(name, structs.class_attribute(self.builder, struct, name))
        except AttributeError:
            names = ", ".join(field_names(struct.kind))
            self.builder.fail(
                f"{describe(struct)} has no field {name}; it has {names}",
                _nearest(name, dir(struct.kind)),
            )

    def _struct_view_attribute(self, view: StructView, name: str) -> Any:
        """The array of a field, or the shape that those of all fields have."""
        if name in field_names(view.kind):
            return view.field(name)
        if name in ("shape", "ndim"):
            return self._view_attribute(view.first, name)
        names = ", ".join(field_names(view.kind))
        self.builder.fail(f"{describe(view)} has no {name}", f"it has shape, ndim, {names}")

    def _known(self, name: str, found: Any) -> Any:
        """What a struct holds, if it is something that kernels know."""
        known = isinstance(found, (*IN_KERNELS, tuple, MethodType, partial))
        return found if known else self._captured(name, found)

    def _number_attribute(self, x: Value | Complex, name: str) -> Any:
        if name == "dtype":
            if isinstance(x, Complex):
                return dtypes.complex64 if x.dtype.itemsize == 4 else dtypes.complex128
            return x.dtype
        if name in ("real", "imag") and isinstance(x, Complex):
            return x.real if name == "real" else x.imag
        if name == "real":
            return x
        self.builder.fail(
            f"numbers in kernels have no attribute {name}",
            "they have dtype, real, and imag if they are complex; convert them by kl.f32(x)",
        )

    def _fragment_attribute(self, fragment: Fragment, name: str) -> Any:
        from portable.lang.frontend.handlers.matrices import FRAGMENT_METHODS

        if name in ("shape", "dtype", "scope"):
            return getattr(fragment, name)
        if name == "map":
            return partial(self.map_fragment, fragment)
        method = FRAGMENT_METHODS.get(name)
        if method is None:
            self.builder.fail(
                f"a kl.matrix has no {name}", "it has fill, load, store, map, shape, dtype, scope"
            )
        return partial(method, self.builder, fragment)

    def visit_subscript(self, node: ast.Subscript) -> Any:
        """An element of an array, part of it, a lane of a vector, an item of a tuple."""
        base = self.visit(node.value)
        index = self.visit(node.slice)
        self.builder.location = self.frame.source.location(node)
        if isinstance(base, View):
            part = memory.subscript(self.builder, base, index)
            is_slot = part.array in self.builder.completions
            return part if part.ndim or is_slot else memory.load(self.builder, base, index)
        if isinstance(base, StructView):
            return structs.part(self.builder, base, index)
        if isinstance(base, Value) and base.lanes > 1:
            return self._lane(base, index)
        items = base if isinstance(base, str) else sequence(base)
        if items is not None:
            return self._item(items, index)
        method = structs.bound_method(base, "__getitem__")
        if method is not None:
            return self._call(method, [index], {})
        self.builder.fail(f"{describe(base)} has no elements")

    def _lane(self, vector: Value, index: Any) -> Value:
        if isinstance(index, slice):
            return self._lanes(vector, index)
        if not isinstance(index, int) or not 0 <= index < vector.lanes:
            self.builder.fail(
                f"a lane of a vector of {vector.lanes} is named by a constant, "
                f"not {describe(index)}",
                "repeat the code for each lane by kl.static_range",
            )
        return Value(e.Lane(vector.expr, index), vector.weak, vector.slots)

    def _lanes(self, vector: Value, part: slice) -> Value:
        """Some lanes as a shorter vector, such as the lower half."""
        bounds = (part.start, part.stop, part.step)
        constant = all(x is None or isinstance(x, int) for x in bounds) and part.step != 0
        chosen = range(vector.lanes)[part] if constant else range(0)
        if len(chosen) not in LANES:
            self.builder.fail(
                f"part of a vector of {vector.lanes} lanes has 2, 4, 8 or 16, named by constants"
            )
        whole = self.builder.let("vector", vector.expr)
        lanes = tuple(e.Lane(whole, i) for i in chosen)
        kind = Vector(vector.dtype, len(lanes))
        return Value(e.MakeVector(lanes, kind), vector.weak, vector.slots)

    def _item(self, base: Any, index: Any) -> Any:
        if not isinstance(index, int | slice):
            self.builder.fail(
                f"an item of a tuple is named by a constant, not {describe(index)}",
                "use kl.private for an array with run-time indices, or kl.static_range",
            )
        try:
            return base[index]
        except (IndexError, TypeError):
            self.builder.fail(f"index {index} is out of range for {describe(base)}")

    def visit_slice(self, node: ast.Slice) -> slice:
        """``start:stop``."""
        parts = [None if x is None else self.visit(x) for x in (node.lower, node.upper, node.step)]
        return slice(*parts)

    def visit_tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        """A tuple."""
        return tuple(self._starred(node.elts))

    def _starred(self, nodes: list[ast.expr]) -> list[Any]:
        out: list[Any] = []
        for item in nodes:
            if isinstance(item, ast.Starred):
                found = self.visit(item.value)
                spread = sequence(found)
                if spread is None:
                    self.builder.fail(f"* takes a tuple, not {describe(found)}")
                out.extend(spread)
            else:
                out.append(self.visit(item))
        return out

    # -- operators -------------------------------------------------------------------------

    def visit_binop(self, node: ast.BinOp) -> Any:
        """``x + y`` and the like."""
        x, y = self.visit(node.left), self.visit(node.right)
        self.builder.location = self.frame.source.location(node)
        return self.operate(node.op, x, y)

    def operate(self, op: ast.operator, x: Any, y: Any) -> Any:
        """A binary operator on what its operands stand for."""
        method = structs.operator_of(_METHODS[type(op)], x, y)
        if method is not None:
            return self._call(method[0], [method[1]], {})
        if isinstance(op, ast.Pow):
            return arithmetic.power(self.builder, x, y)
        if isinstance(op, ast.MatMult):
            self.builder.fail("@ is not in the kernel language", "see kl.mma")
        return arithmetic.binary(self.builder, _BINARY[type(op)], x, y)

    def visit_unaryop(self, node: ast.UnaryOp) -> Any:
        """``-x``, ``+x``, ``~x``, ``not x``."""
        x = self.visit(node.operand)
        self.builder.location = self.frame.source.location(node)
        method = structs.bound_method(x, _UNARY_METHODS.get(type(node.op), ""))
        if method is not None:
            return self._call(method, [], {})
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
        self.builder.location = self.frame.source.location(node)
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
            if isinstance(x, Value | Complex) or isinstance(y, Value | Complex):
                return isinstance(op, ast.IsNot)
            return (x is y) == isinstance(op, ast.Is)
        if isinstance(op, ast.In | ast.NotIn):
            if not isinstance(y, tuple | frozenset | str) or isinstance(x, Value | Complex):
                self.builder.fail("'in' takes compile-time constants", "compare with each item")
            return (x in y) == isinstance(op, ast.In)
        return arithmetic.compare(self.builder, _COMPARE[type(op)], x, y)

    def visit_boolop(self, node: ast.BoolOp) -> Any:
        """``and`` and ``or``: the right side is evaluated only where it decides."""
        stop = isinstance(node.op, ast.Or)
        result: Any = not stop
        for operand in node.values:
            if isinstance(result, bool):
                if result is stop:
                    return result
                result = self.visit(operand)
                if not isinstance(result, Value | bool):
                    result = constant_truth(self.builder, result, _OPERAND)
            else:
                result = self._guarded(result, partial(self.visit, operand), stop)
        return result

    def _guarded(self, left: Value, evaluate: Callable[[], Any], stop: bool) -> Value:
        condition = as_bool(self.builder, left, _OPERAND)
        with self.builder.block() as block:
            decided = as_bool(self.builder, evaluate(), _OPERAND)
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
        condition = self.visit(node.test)
        if not isinstance(condition, Value):
            return self.visit(node.body if constant_truth(self.builder, condition) else node.orelse)
        test = as_bool(self.builder, condition)
        with self.builder.block() as then:
            x = self.visit(node.body)
        with self.builder.block() as orelse:
            y = self.visit(node.orelse)
        if not then and not orelse and items_in(x) is None:
            return arithmetic.select(self.builder, condition, x, y)
        key = (self.frame.path, "if", node.lineno, node.col_offset, self.builder.name("either"))
        result = variables.new(self.builder, key, "either", x)
        for block, value in ((then, x), (orelse, y)):
            with self.builder.block() as tail:
                variables.assign(self.builder, result, value, "the conditional expression")
            block.extend(tail)
        self.builder.emit(s.If(test, tuple(then), tuple(orelse), self.builder.location))
        return variables.read(self.builder, result)

    # -- calls -----------------------------------------------------------------------------

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
        self.builder.location = self.frame.source.location(node)
        self.builder.hint = hint
        result = self._call(function, args, kwargs)
        self.builder.hint = ""
        return result

    def _call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(function, words.Word):
            return self._call_word(function, args, kwargs)
        if isinstance(function, Function):
            return self.call_function(function, args, kwargs)
        if isinstance(function, DType):
            return self._call_dtype(function, args, kwargs)
        if isinstance(function, MethodType) and isinstance(function.__func__, Function):
            return self.call_function(function.__func__, [function.__self__, *args], kwargs)
        if isinstance(function, partial):
            return self._call_method(function, args, kwargs)
        if isinstance(function, type):
            structs.refuse_mutable(self.builder, function)
        if structs.is_struct(function):
            return structs.make(self.builder, function, args, kwargs)
        if function is dataclasses.replace and len(args) == 1:
            return structs.replaced(self.builder, args[0], kwargs)
        method = structs.bound_method(function, "__call__")
        if method is not None:
            return self._call(method, args, kwargs)
        return self._call_python(function, args, kwargs)

    def _call_word(self, word: words.Word, args: list[Any], kwargs: dict[str, Any]) -> Any:
        from portable.lang.frontend.handlers import HANDLERS

        try:
            bound = word.signature.bind(*args, **kwargs)
        except TypeError as error:
            self.builder.fail(f"kl.{word.name}{_without_types(word.signature)}: {error}")
        bound.apply_defaults()
        if word.name in ("static_range", "range"):
            return self._range(static=word.name == "static_range", **bound.arguments)
        if word.name == "elements":
            return word, bound.arguments["fragment"]
        return HANDLERS[word.name](self.builder, **bound.arguments)

    def _range(
        self, start: Any, stop: Any = None, step: Any = 1, unroll: int = 0, static: bool = False
    ) -> Range:
        if stop is None:
            start, stop = 0, start
        for x in (start, stop, step):
            integer = isinstance(x, Value) and x.dtype.is_integer and x.lanes == 1
            if not integer and (not isinstance(x, int) or isinstance(x, bool)):
                self.builder.fail(f"range takes integers, not {describe(x)}")
        if isinstance(step, int) and step == 0:
            self.builder.fail("the step of a range cannot be zero")
        return Range(start, stop, step, unroll, static)

    def _call_dtype(self, dtype: DType, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) != 1 or kwargs:
            self.builder.fail(f"kl.{dtype.short}(x) converts one number")
        return cast(self.builder, args[0], dtype)

    def _call_method(self, method: partial[Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What an attribute of a matrix or a struct gave."""
        try:
            inspect.signature(method).bind(*args, **kwargs)
        except TypeError as error:
            name = method.func.__name__.lstrip("_")
            if method.args[-1:] and isinstance(method.args[-1], Fragment):
                name += " of a kl.matrix"
            self.builder.fail(f"{name}: {error}")
        return method(*args, **kwargs)

    def _call_python(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if function is range:
            return self._call_word(words.range, args, kwargs)
        if function in (min, max) and len(args) >= 2 and not kwargs:
            op: e.BinaryOp = "min" if function is min else "max"
            result = args[0]
            for x in args[1:]:
                result = arithmetic.binary(self.builder, op, result, x)
            return result
        if function is abs and len(args) == 1:
            return arithmetic.call(self.builder, "abs", args[0])
        if function is len and len(args) == 1 and isinstance(args[0], View | StructView):
            view = args[0] if isinstance(args[0], View) else args[0].first
            return self._view_attribute(view, "shape")[0]
        if function in _ON_SEQUENCES and args and all(sequence(x) is not None for x in args):
            return self._on_sequences(function, args, kwargs)
        return self._constant_call(function, args, kwargs)

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
        what = name if callable(function) else describe(function)
        self.builder.fail(f"{what} cannot be called in a kernel", _call_hint(function, name))


def _is_kernel(x: Any) -> bool:
    from portable.lang.kernel import Kernel

    return isinstance(x, Kernel)


def _call_hint(function: Any, name: str) -> str:
    if function in (int, float, bool):
        short = {int: "i32", float: "f32", bool: "bool_"}[function]
        return f"convert by kl.{short}(x), or another dtype"
    if hasattr(words, name):
        return f"write kl.{name}(...)"
    if getattr(math, name, None) is function:
        return "the words of the language are in portable.lang, such as kl.exp"
    if not callable(function):
        return ""
    if getattr(builtins, name, None) is function:
        return "Python's own functions take compile-time constants here; write it as a loop"
    if name == "<lambda>":
        return "define it by 'def' and mark it @portable.function"
    return "mark it @portable.function if it is a helper of kernels"


def _nearest(name: str, known: Iterable[str]) -> str:
    """What a name that does not exist may have been meant to be."""
    nearest = get_close_matches(name, known, n=1)
    return f"did you mean {nearest[0]}?" if nearest else ""


def _without_types(signature: inspect.Signature) -> inspect.Signature:
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return inspect.Signature(plain)
