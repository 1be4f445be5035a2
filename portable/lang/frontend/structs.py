"""Structs in kernels: making them, their fields and methods, and arrays of them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import cached_property, partial
from types import MethodType
from typing import Any, Final

from portable.dtypes import DType
from portable.errors import OutsideKernelError
from portable.lang.arguments.parameters import binder_of
from portable.lang.arguments.structs import (
    declared_types,
    field_names,
    is_struct_type,
    mutable_dataclass,
)
from portable.lang.frontend import memory
from portable.lang.frontend import values as v
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import cast, constant
from portable.lang.frontend.frames import Frame
from portable.lang.function import Function, helper

_MISSING: Final = dataclasses.MISSING
_REFLECTED: Final = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def refuse_mutable(builder: Builder, kind: Any) -> None:
    """Says what makes a dataclass a struct, if it is none for being mutable."""
    if mutable_dataclass(kind):
        builder.fail(
            f"{kind.__name__} is a dataclass that can change",
            "structs of kernels do not: mark it @dataclass(frozen=True)",
        )


# -- making structs -------------------------------------------------------------------------


def make(builder: Builder, kind: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``Kind(...)``: of constants alone as Python makes it, else field by field.

    Parameters
    ----------
    builder : Builder
    kind : type
        The struct's class.
    args, kwargs : list, dict
        What it is called with.
    """
    if not any(map(v.at_run_time, (*args, *kwargs.values()))):
        return _made_by_python(builder, kind, args, kwargs)
    _refuse_constructors(builder, kind)
    try:
        given, _ = binder_of(kind).bind(args, kwargs)
    except TypeError as error:
        builder.fail(f"{kind.__name__}: {error}", f"its fields are {', '.join(field_names(kind))}")
    defaults = _defaults(kind)
    items = []
    for name in field_names(kind):
        if name in given:
            items.append(given[name])
        elif name in defaults:
            items.append(constant(builder, defaults[name]()))
        else:
            builder.fail(f"{kind.__name__} has no value for its field {name}")
    return typed(builder, v.Struct(kind, tuple(items)))


def _made_by_python(builder: Builder, kind: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        made = kind(*map(v.plain, args), **{name: v.plain(x) for name, x in kwargs.items()})
    except Exception as error:  # noqa: BLE001 - the constructor is the user's, to raise what it likes
        builder.fail(f"{kind.__name__}: {error}", f"its fields are {', '.join(field_names(kind))}")
    return typed(builder, constant(builder, made))


def _refuse_constructors(builder: Builder, kind: Any) -> None:
    """A constructor of the user's own is Python, which cannot work on run-time values."""
    constructor = "__post_init__" if hasattr(kind, "__post_init__") else ""
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is not None and not parameters.init:
        constructor = "__init__"
    if constructor:
        builder.fail(
            f"{kind.__name__} has {constructor}, which is Python's and cannot run on values of a "
            "kernel",
            "leave it out, or make the struct before the launch",
        )


def _defaults(kind: Any) -> dict[str, Callable[[], Any]]:
    """What makes the default of each field that has one."""
    if issubclass(kind, tuple):
        defaults = kind._field_defaults
        return {name: partial(_itself, x) for name, x in defaults.items()}
    makers: dict[str, Callable[[], Any]] = {}
    for field in dataclasses.fields(kind):
        if field.default is not _MISSING:
            makers[field.name] = partial(_itself, field.default)
        elif field.default_factory is not _MISSING:
            makers[field.name] = field.default_factory
    return makers


def _itself(x: Any) -> Any:
    return x


def typed(builder: Builder, struct: Any) -> Any:
    """The struct with the numbers converted that its class annotates with a dtype."""
    types = declared_types(struct.kind)
    if not types:
        return struct
    items = []
    for name, item in zip(field_names(struct.kind), struct.items, strict=True):
        wanted = types.get(name)
        if isinstance(wanted, DType) and v.is_number(item):
            item = cast(builder, item, wanted)
        items.append(item)
    return v.Struct(struct.kind, tuple(items))


def replaced(builder: Builder, struct: Any, changes: dict[str, Any]) -> Any:
    """``dataclasses.replace(struct, field=...)``, or ``struct._replace(field=...)``.

    Parameters
    ----------
    builder : Builder
    struct : Struct or constant
    changes : dict
        New values by the names of fields.
    """
    if not isinstance(struct, v.Struct):
        builder.fail(f"replace takes a struct, not {v.describe(struct)}")
    names = field_names(struct.kind)
    for name in changes:
        if name not in names:
            builder.fail(f"{v.describe(struct)} has no field {name}; it has {', '.join(names)}")
    items = (changes.get(name, item) for name, item in zip(names, struct.items, strict=True))
    return typed(builder, v.Struct(struct.kind, tuple(items)))


def as_tuple(builder: Builder, struct: Any) -> tuple[Any, ...]:
    """``dataclasses.astuple(struct)``: its fields, those that are structs as tuples as well."""
    if not isinstance(struct, v.Struct):
        builder.fail(f"astuple takes a struct, not {v.describe(struct)}")
    return tuple(as_tuple(builder, x) if isinstance(x, v.Struct) else x for x in struct.items)


# -- what a class has besides fields -----------------------------------------------------------


def parent(builder: Builder, frame: Frame) -> v.Super:
    """``super()`` in a method."""
    owner, struct = frame.outer.get("__class__"), next(iter(frame.env.values()), None)
    if not isinstance(struct, v.Struct) or owner not in struct.kind.__mro__:
        builder.fail("super() is of the methods of structs", "name the class: Base.method(self)")
    return v.Super(owner, struct)


def inherited(builder: Builder, base: v.Super, name: str) -> Any:
    """What ``super().name`` is.

    Raises
    ------
    AttributeError
        If no class further up has such a thing.
    """
    order = base.struct.kind.__mro__
    for kind in order[order.index(base.owner) + 1 :]:
        if name in vars(kind):
            return class_attribute(builder, base.struct, name, vars(kind)[name])
    raise AttributeError


def class_attribute(builder: Builder, struct: v.Struct, name: str, attribute: Any = None) -> Any:
    """A method, property or constant of a struct's class.

    Parameters
    ----------
    builder : Builder
    struct : Struct
    name : str
    attribute : anything, optional
        The thing itself, if it is that of another class.

    Raises
    ------
    AttributeError
        If the class has no such thing.
    """
    if attribute is None:
        attribute = inspect.getattr_static(struct.kind, name)
    if name == "_replace":
        return MethodType(partial(_replace_method, builder), struct)
    if helper(attribute) is not None:
        return MethodType(attribute, struct)
    if isinstance(attribute, property | cached_property):
        return _property(builder, struct, name, attribute)
    if isinstance(attribute, staticmethod | classmethod):
        return getattr(struct.kind, name)
    if not v.at_run_time(struct):
        return constant(builder, getattr(v.plain(struct), name))
    if callable(attribute):
        builder.fail(
            f"{name} of {v.describe(struct)} is Python's and cannot run on values of a kernel",
            "kernels call methods defined by 'def', without other decorators",
        )
    return constant(builder, attribute)


def _property(
    builder: Builder, struct: v.Struct, name: str, attribute: property | cached_property[Any]
) -> Any:
    """A property; of a struct of constants it is what Python makes of it, if Python can."""
    getter = attribute.fget if isinstance(attribute, property) else attribute.func
    if not isinstance(getter, Function) and not v.at_run_time(struct):
        try:
            return constant(builder, getattr(v.plain(struct), name))
        except OutsideKernelError:
            pass  # it is made of words of the language
        except Exception as error:  # noqa: BLE001 - it is the user's, to raise what it likes
            what = f"{type(error).__name__}: {error}"
            builder.fail(f"{struct.kind.__name__}.{name}: {what}")
    inlined = helper(getter)
    if inlined is None:
        builder.fail(
            f"the property {name} of {v.describe(struct)} is no plain function",
            "define it by 'def', without decorators but @property",
        )
    return builder.inline(inlined, [struct], {})


def _replace_method(builder: Builder, struct: v.Struct, **changes: Any) -> Any:
    return replaced(builder, struct, changes)


def bound_method(x: Any, name: str) -> MethodType | None:
    """The method of a struct by which Python would carry out an operator; None without one."""
    if not isinstance(x, v.Struct):
        return None
    attribute = inspect.getattr_static(x.kind, name, None)
    return (
        MethodType(attribute, x)
        if helper(attribute) is not None and not _generated(attribute)
        else None
    )


def _generated(method: Any) -> bool:
    """Whether a dataclass wrote the method itself."""
    return getattr(getattr(method, "__code__", None), "co_filename", "") == "<string>"


def comparison_of(builder: Builder, op: str, x: Any, y: Any) -> tuple[MethodType, Any] | None:
    """The method for ``x op y``, such as ``==``, and what it is called with; None without one.

    Where a class has none of its own, structs are equal whose fields are.

    Parameters
    ----------
    builder : Builder
    op : str
        As of `portable.lang.ir.expressions.Compare`.
    x, y : anything
    """
    name_of, reflected = (f"__{name}__" for name in (op, _REFLECTED[op]))
    for one, name, other in ((x, name_of, y), (y, reflected, x)):
        method = bound_method(one, name)
        if method is not None:
            return method, other
        if isinstance(one, v.Struct) and op in ("eq", "ne"):
            _refuse_identity(builder, one, name)
    return None


def negates_equality(builder: Builder, x: Any, y: Any) -> bool:
    """Whether ``x != y`` is ``not x == y`` by a method; tuples have a ``!=`` of their own.

    Parameters
    ----------
    builder : Builder
    x, y : anything
    """
    kinds = [one.kind for one in (x, y) if isinstance(one, v.Struct)]
    if any(issubclass(kind, tuple) for kind in kinds):
        return False
    return comparison_of(builder, "eq", x, y) is not None


def _refuse_identity(builder: Builder, struct: v.Struct, name: str) -> None:
    """Refuses to compare structs by whether they are one object."""
    if inspect.getattr_static(struct.kind, name) is object.__eq__:
        builder.fail(
            f"{name} of {v.describe(struct)} compares objects and cannot run on values of a kernel",
            "define it, or leave it to the dataclass",
        )


def operator_of(name: str, x: Any, y: Any) -> tuple[MethodType, Any] | None:
    """The method for ``x op y`` and what it is called with; None where neither has one.

    Parameters
    ----------
    name : str
        Of the operator, as ``add`` of ``__add__``.
    x, y : anything
    """
    method = bound_method(x, f"__{name}__")
    if method is not None:
        return method, y
    reflected = bound_method(y, f"__r{name}__")
    return None if reflected is None else (reflected, x)


# -- arrays of structs ---------------------------------------------------------------------------


def element_types(builder: Builder, x: Any) -> v.Struct | tuple[Any, ...] | None:
    """The struct or tuple of dtypes that an array's elements are described by; None if it is none.

    A class stands for the struct of the dtypes that its fields are annotated with.
    """
    if isinstance(x, v.Struct | tuple):
        return x
    if not isinstance(x, type):
        return None
    refuse_mutable(builder, x)
    if not is_struct_type(x):
        return None
    types = declared_types(x)
    for name in field_names(x):
        if name not in types:
            builder.fail(
                f"the field {name} of {x.__name__} is not annotated with a dtype",
                f"give the dtypes of the elements: {x.__name__}(kl.f32, ...)",
            )
    return v.Struct(x, tuple(types.values()))


def is_callable(x: object) -> bool:
    """Whether kernels can call this: a helper, a word, a method, a struct with ``__call__``."""
    return callable(x) or bound_method(x, "__call__") is not None


def load(builder: Builder, view: v.View | v.StructView, index: Any) -> Any:
    """An element, of a struct all of its fields.

    Parameters
    ----------
    builder : Builder
    view : View or StructView
    index : anything
        What stands between the brackets: an integer for each dimension.
    """
    if isinstance(view, v.View):
        return memory.load(builder, view, index)
    items = tuple(load(builder, item, index) for item in view.items)
    return items if view.kind is tuple else v.Struct(view.kind, items)


def part(builder: Builder, view: v.StructView, index: Any) -> Any:
    """What subscripts select of an array of structs: a struct, or a smaller array of them.

    Parameters
    ----------
    builder : Builder
    view : StructView
    index : anything
        What stands between the brackets.
    """
    items = tuple(
        part(builder, item, index)
        if isinstance(item, v.StructView)
        else memory.subscript(builder, item, index)
        for item in view.items
    )
    chosen = v.StructView(view.kind, items)
    return chosen if chosen.first.ndim else load(builder, view, index)


def store(builder: Builder, view: v.View | v.StructView, index: Any, value: Any) -> None:
    """Writes an element, of a struct all of its fields.

    Parameters
    ----------
    builder : Builder
    view : View or StructView
    index : anything
        What stands between the brackets: an integer for each dimension.
    value : number, Value, or struct of them
    """
    if isinstance(view, v.View):
        memory.store(builder, view, index, value)
        return
    kind = value.kind if isinstance(value, v.Struct) else type(value)
    items = v.items_in(value)
    if kind is not view.kind or items is None or len(items) != len(view.items):
        builder.fail(f"{v.describe(value)} cannot be stored in a {v.describe(view)}")
    for item, field in zip(view.items, items, strict=True):
        store(builder, item, index, field)
