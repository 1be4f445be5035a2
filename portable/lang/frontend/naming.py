"""Resolves names, attributes and subscripts."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from difflib import get_close_matches
from enum import Enum
from functools import cache, partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

from portable import dtypes
from portable.dtypes import DType
from portable.lang import words
from portable.lang.arguments.structs import field_names
from portable.lang.frontend import arithmetic, memory, structs, variables
from portable.lang.frontend import values as v
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import constant
from portable.lang.frontend.frames import Closure, Frame
from portable.lang.frontend.syntax import Given
from portable.lang.frontend.variables import Unassigned
from portable.lang.function import Function, Marked
from portable.lang.ir import expressions as e
from portable.lang.ir.types import LANES, Fragment, Vector

_AS_IT_IS: Final = frozenset(
    {v.Value, v.View, bool, int, float, str, DType, ModuleType, FunctionType, Function, Closure}
)
"""Types of what names most often stand for, which is given as it is."""

_CAPTURED: Final = (bool, int, float, complex, str, tuple, DType, Enum, ModuleType, Function)
_ELSEWHERE: Final = {
    "assert_": "check",
    "blockDim": "local_size",
    "blockIdx": "group_id",
    "block_dim": "local_size",
    "block_id": "group_id",
    "block_idx": "group_id",
    "cas": "atomic_compare_exchange",
    "clamp": "clip",
    "grid": "global_id",
    "gridDim": "num_groups",
    "grid_dim": "num_groups",
    "lane_id": "sub_group_local_id",
    "max": "maximum",
    "min": "minimum",
    "popc": "popcount",
    "prange": "range",
    "printf": "print",
    "program_id": "group_id",
    "rand": "random.uniform",
    "select": "where",
    "shared": "local",
    "shfl": "sub_group_shuffle",
    "sum": "workgroup_reduce",
    "sync_threads": "barrier",
    "syncthreads": "barrier",
    "threadIdx": "local_id",
    "thread_id": "local_id",
    "thread_idx": "local_id",
    "threadfence": "fence",
    "tid": "global_id",
    "warp_size": "sub_group_size",
    **dict.fromkeys(("vec2", "vec3", "vec4", "float2", "float3", "float4"), "vector"),
}
"""What other kernel languages call words of this one."""


_REFUSED: Final[dict[type[ast.expr], str]] = {
    ast.List: "use a tuple of constants, or kl.private for an array",
    ast.Dict: "use keyword-only arguments for constants",
    ast.Set: "use a tuple",
    ast.DictComp: "use a for loop",
    ast.SetComp: "use a for loop",
    ast.NamedExpr: "assign in a statement of its own",
    ast.JoinedStr: "give kl.print its pieces one by one",
    ast.Await: "kernels have no coroutines",
    ast.Yield: "kernels have no generators",
    ast.YieldFrom: "kernels have no generators",
}


@cache
def _method_name(kind: str) -> str:
    return f"visit_{kind.lower()}"


class NameTranslator(ABC):
    """Turns names, and what is written after them, into constants, values and views."""

    builder: Builder

    @property
    def frame(self) -> Frame:
        """The function under translation."""
        return self.builder.frame

    # -- given by the subclass -------------------------------------------------------------

    @abstractmethod
    def call_function(self, function: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Inlines a helper function."""

    @abstractmethod
    def call_closure(self, function: Closure, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Inlines a lambda of a kernel's own."""

    @abstractmethod
    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What calling something gives."""

    @abstractmethod
    def map_fragment(self, fragment: Fragment, function: Any, *more: Any) -> None:
        """Applies a helper function to the elements of a matrix, each with the same arguments."""

    # -- dispatch --------------------------------------------------------------------------

    def visit(self, node: ast.expr) -> Any:
        """What an expression stands for; run-time effects are emitted as they come."""
        self.builder.node = node
        method: Callable[[Any], Any] | None = getattr(self, _method_name(type(node).__name__), None)
        if method is None:
            hint = _REFUSED.get(type(node), "")
            self.builder.fail(f"{type(node).__name__} is not in the kernel language", hint)
        return method(node)

    def visit_given(self, node: Given) -> Any:
        """What was found out before."""
        return node.value

    def visit_constant(self, node: ast.Constant) -> Any:
        """A literal."""
        if isinstance(node.value, bytes):
            self.builder.fail("bytes are not in the kernel language")
        return node.value

    def visit_lambda(self, node: ast.Lambda) -> Closure:
        """A function that sees the names around it."""
        args = node.args
        if args.vararg is not None or args.kwarg is not None:
            self.builder.fail("lambdas in kernels take no * and **", "name what they take")
        names = [x.arg for x in (*args.posonlyargs, *args.args)]
        pairs = [*zip(names[len(names) - len(args.defaults) :], args.defaults, strict=True)]
        pairs += [
            (x.arg, default)
            for x, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
            if default is not None
        ]
        return Closure(node, self.frame, {name: self.visit(x) for name, x in pairs})

    def visit_name(self, node: ast.Name) -> Any:
        """A local name, else one captured from the surrounding Python as a constant."""
        frame = self.builder.frame
        if node.id in frame.env:
            value = frame.env[node.id]
            if type(value) in _AS_IT_IS:
                return value
            if isinstance(value, Unassigned):
                self.builder.fail(
                    f"{node.id} may be unassigned here: {value.why}",
                    value.hint or f"give {node.id} a value before the branch or loop",
                )
            return variables.read(self.builder, value)
        if node.id not in frame.outer:
            known = [*frame.env, *frame.outer]
            is_word = hasattr(words, node.id)
            hint = f"write kl.{node.id}" if is_word else nearest_hint(node.id, known)
            self.builder.fail(f"the name {node.id} is not defined", hint)
        value = frame.outer[node.id]
        self.builder.names.note(frame.source.function, node.id, value)
        return self._captured(node.id, value)

    def _captured(self, name: str, value: Any) -> Any:
        if type(value) in _AS_IT_IS:
            return value
        value = constant(self.builder, value)
        if isinstance(value, v.Value | v.Complex | v.Struct):
            return value
        if value is None or value is words.target or isinstance(value, _CAPTURED):
            return value
        if isinstance(value, Marked) and not isinstance(value, Function):
            self.builder.fail(
                f"{name} is a kernel, and kernels launch no others",
                "put what both need into a function marked @portable.function",
            )
        if callable(value):
            return value
        structs.refuse_mutable(self.builder, type(value))
        self.builder.fail(
            f"{name}, a {type(value).__name__}, cannot be captured by a kernel",
            "pass arrays as arguments and other things as keyword-only constants",
        )

    def visit_attribute(self, node: ast.Attribute) -> Any:
        """Attributes of arrays, numbers, modules and ``kl.target``."""
        base = self.visit(node.value)
        self.builder.node = node
        if base is words.target:
            return self._capability(node.attr)
        if type(base) is ModuleType and hasattr(base, node.attr):
            attribute = getattr(base, node.attr)
            self.builder.names.note_attribute(base, node.attr, attribute)
            return self._captured(node.attr, attribute)
        if isinstance(base, v.View):
            return self._view_attribute(base, node.attr)
        if isinstance(base, v.Value | v.Complex):
            return self._number_attribute(base, node.attr)
        if isinstance(base, Fragment):
            return self._fragment_attribute(base, node.attr)
        if isinstance(base, v.Struct):
            return self._struct_attribute(base, node.attr)
        if isinstance(base, v.StructView):
            return self._struct_view_attribute(base, node.attr)
        try:
            if isinstance(base, v.Super):
                return structs.inherited(self.builder, base, node.attr)
            attribute = getattr(base, node.attr)
            self.builder.names.note_attribute(base, node.attr, attribute)
            return self._captured(node.attr, attribute)
        except AttributeError:
            known = _ELSEWHERE.get(node.attr, "") if _is_language(base) else ""
            hint = f"write kl.{known}" if known else nearest_hint(node.attr, dir(base))
            self.builder.fail(f"{v.describe(base)} has no attribute {node.attr}", hint)

    def _capability(self, name: str) -> Any:
        known = [f.name for f in fields(self.builder.capabilities)]
        if name not in known:
            self.builder.fail(
                f"kl.target has no capability {name}; it has {', '.join(known)}",
                nearest_hint(name, known),
            )
        return getattr(self.builder.capabilities, name)

    def _view_attribute(self, view: v.View, name: str) -> Any:
        match name:
            case "shape":
                return tuple(x if isinstance(x, int) else v.Value(x) for x in view.extents)
            case "ndim":
                return view.ndim
            case "dtype":
                return view.array.dtype
            case "size":
                return self._size(view)
            case "T" if view.ndim == 2:
                return replace(view, kept=view.kept[::-1], extents=view.extents[::-1])
            case _:
                self.builder.fail(
                    f"{v.describe(view)} has no attribute {name}",
                    "arrays in kernels have shape, size, ndim and dtype; of two dimensions T too",
                )

    def _size(self, view: v.View) -> Any:
        """How many elements it has."""
        size: Any = 1
        for x in view.extents:
            size = arithmetic.binary(
                self.builder, "mul", size, x if isinstance(x, int) else v.Value(x)
            )
        return size

    def _struct_attribute(self, struct: v.Struct, name: str) -> Any:
        """A field of a struct, or what its class has."""
        if name in field_names(struct.kind):
            return self._known(name, struct.field(name))
        try:
            return self._known(name, structs.class_attribute(self.builder, struct, name))
        except AttributeError:
            names = ", ".join(field_names(struct.kind))
            self.builder.fail(
                f"{v.describe(struct)} has no field {name}; it has {names}",
                nearest_hint(name, dir(struct.kind)),
            )

    def _struct_view_attribute(self, view: v.StructView, name: str) -> Any:
        """The array of a field, or the shape that those of all fields have."""
        names = () if view.kind is tuple else field_names(view.kind)
        if name in names:
            return view.field(name)
        if name in ("shape", "ndim"):
            return self._view_attribute(view.first, name)
        self.builder.fail(
            f"{v.describe(view)} has no {name}", f"it has {', '.join(['shape', 'ndim', *names])}"
        )

    def _known(self, name: str, value: Any) -> Any:
        """What a struct holds, if it is something that kernels know."""
        known = isinstance(value, (*v.IN_KERNELS, tuple, MethodType))
        return value if known else self._captured(name, value)

    def _number_attribute(self, x: v.Value | v.Complex, name: str) -> Any:
        if name == "dtype":
            if isinstance(x, v.Complex):
                return dtypes.complex64 if x.dtype.itemsize == 4 else dtypes.complex128
            return x.dtype
        if name == "lanes" and isinstance(x, v.Value):
            return x.lanes
        if name in ("real", "imag") and isinstance(x, v.Complex):
            return x.real if name == "real" else x.imag
        if name == "real":
            return x
        if name in "xyzw" and isinstance(x, v.Value) and x.lanes > 1:
            self.builder.fail(f"vectors have no attribute {name}", "write v[0] for the first lane")
        self.builder.fail(
            f"numbers in kernels have no attribute {name}",
            "they have dtype, lanes, real, and imag if they are complex; convert them by kl.f32(x)",
        )

    def _fragment_attribute(self, fragment: Fragment, name: str) -> Any:
        from portable.lang.frontend.handlers.matrices import FRAGMENT_METHODS

        if name in ("shape", "dtype", "scope"):
            return getattr(fragment, name)
        if name == "map":
            return MethodType(self.map_fragment, fragment)
        method = FRAGMENT_METHODS.get(name)
        if method is None:
            self.builder.fail(
                f"a kl.matrix has no {name}", "it has fill, load, store, map, shape, dtype, scope"
            )
        return MethodType(partial(method, self.builder), fragment)

    def visit_subscript(self, node: ast.Subscript) -> Any:
        """An element of an array, part of it, a lane of a vector, an item of a tuple."""
        base = self.visit(node.value)
        index = self.visit(node.slice)
        self.builder.node = node
        if isinstance(base, v.View):
            part = memory.subscript(self.builder, base, index)
            is_slot = part.array in self.builder.completions
            return part if part.ndim or is_slot else memory.load(self.builder, base, index)
        if isinstance(base, v.StructView):
            return structs.part(self.builder, base, index)
        if isinstance(base, v.Value) and (base.lanes > 1 or _names_all(index)):
            return self._lane(base, index)
        if index == () and isinstance(base, v.Value | v.Complex | int | float | complex):
            return base  # as NumPy has it, whose reductions give numbers where others give arrays
        if isinstance(base, v.Complex) and _names_all(index):
            return base  # the lane of a vector of one
        method = structs.bound_method(base, "__getitem__")
        if method is not None:
            return self.call(method, [index], {})
        items = base if isinstance(base, str) else v.sequence(base)
        if items is not None:
            return self._item(items, index)
        self.builder.fail(f"{v.describe(base)} has no elements")

    def _lane(self, vector: v.Value, index: Any) -> v.Value:
        if isinstance(index, slice):
            return self._lanes(vector, index)
        if not isinstance(index, int) or not 0 <= index < vector.lanes:
            self.builder.fail(
                f"a lane of a vector of {vector.lanes} is named by a constant, "
                f"not {v.describe(index)}",
                "repeat the code for each lane by kl.static_range",
            )
        return self._picked(vector, (index,))

    def _lanes(self, vector: v.Value, part: slice) -> v.Value:
        """Some lanes as a shorter vector, such as the lower half."""
        bounds = (part.start, part.stop, part.step)
        constant = all(x is None or isinstance(x, int) for x in bounds) and part.step != 0
        chosen = range(vector.lanes)[part] if constant else range(0)
        if len(chosen) not in (1, *LANES):
            self.builder.fail(
                f"part of a vector of {vector.lanes} lanes has 1, 2, 3, 4, 8, 16 or 32, named by "
                "constants"
            )
        return self._picked(vector, tuple(chosen))

    def _picked(self, vector: v.Value, lanes: tuple[int, ...]) -> v.Value:
        """Lanes of a vector; a scalar counts as a vector of one."""
        if vector.lanes == 1:
            return vector
        if len(lanes) == 1:
            return vector.made_into(e.Lane(vector.expr, lanes[0]))
        whole = self.builder.let("vector", vector.expr)
        elements = tuple(e.Lane(whole, i) for i in lanes)
        kind = Vector(vector.dtype, len(lanes))
        return vector.made_into(e.MakeVector(elements, kind))

    def _item(self, base: Any, index: Any) -> Any:
        if not isinstance(index, int | slice) or v.at_run_time(index):
            self.builder.fail(
                f"an item of a tuple is named by a constant, not {v.describe(index)}",
                "use kl.private for an array with run-time indices, or kl.static_range",
            )
        try:
            return base[index]
        except (IndexError, TypeError):
            self.builder.fail(f"index {index} is out of range for {v.describe(base)}")

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
                value = self.visit(item.value)
                spread = v.sequence(value)
                if spread is None:
                    self.builder.fail(f"* takes a tuple, not {v.describe(value)}")
                out.extend(spread)
            else:
                out.append(self.visit(item))
        return out


def _names_all(index: Any) -> bool:
    """Whether an index names the only lane of a scalar."""
    if isinstance(index, slice):
        return index in (slice(None), slice(None, 1), slice(0, 1), slice(0, None))
    return type(index) is int and index == 0


def _is_language(x: Any) -> bool:
    """Whether this is the module that users call ``kl``."""
    return isinstance(x, ModuleType) and x.__name__ == "portable.lang"


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """What a name that does not exist may have been meant to be."""
    nearest = get_close_matches(name, known, n=1)
    return f"did you mean {nearest[0]}?" if nearest else ""
