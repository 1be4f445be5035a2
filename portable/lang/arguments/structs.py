"""Structs: frozen dataclasses and NamedTuples, which kernels and launches take apart into fields.

Here is what is known of them in plain Python; what kernels do with them is told by
`portable.lang.frontend.structs`.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, TypeVar, cast

import numpy as np

from portable.backend import ArrayView
from portable.dtypes import DType, dtype
from portable.errors import DTypeError

_NO_COMPOSITES: Final = (ArrayView,)
"""NamedTuples that are the library's own way to speak of one array."""

_F = TypeVar("_F", bound=Callable[..., Any])


def per_class(function: _F) -> _F:
    """Remembers what a function finds out of a class."""
    return cast(_F, lru_cache(maxsize=4096)(function))


@per_class
def is_struct_type(kind: Any) -> bool:
    """Whether a class is a frozen dataclass or a NamedTuple, so that kernels know its fields."""
    if kind in _NO_COMPOSITES:
        return False
    if issubclass(kind, tuple):
        return hasattr(kind, "_fields")
    parameters = getattr(kind, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


@per_class
def is_composite(kind: Any) -> bool:
    """Whether objects of a class are taken apart: structs and tuples."""
    return kind is tuple or is_struct_type(kind)


def mutable_dataclass(kind: Any) -> bool:
    """Whether a class would be a struct if it were frozen."""
    return dataclasses.is_dataclass(kind) and not is_struct_type(kind)


@per_class
def field_names(kind: Any) -> tuple[str, ...]:
    """The names of a struct's fields, in the order of their definition."""
    if issubclass(kind, tuple):
        return tuple(kind._fields)
    return tuple(f.name for f in dataclasses.fields(kind))


def label(kind: Any, position: int) -> str:
    """How an item is written after its owner's name: ``[0]`` of a tuple, ``.x`` of a struct."""
    return f"[{position}]" if kind is tuple else f".{field_names(kind)[position]}"


@per_class
def _getter(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    if issubclass(kind, tuple):
        return tuple
    names = field_names(kind)
    if len(names) < 2:
        return lambda x: tuple(getattr(x, name) for name in names)
    return attrgetter(*names)


def items_of(x: Any) -> tuple[Any, ...]:
    """The fields of a struct, or the items of a tuple."""
    return _getter(type(x))(x)


def instance(kind: Any, items: tuple[Any, ...]) -> Any:
    """A tuple or struct of these items, made without running its constructor."""
    if kind is tuple:
        return items
    if issubclass(kind, tuple):
        return kind._make(items)
    made = object.__new__(kind)
    for name, item in zip(field_names(kind), items, strict=True):
        object.__setattr__(made, name, item)
    return made


def flattened(args: tuple[Any, ...]) -> list[Any]:
    """The arguments of a launch with those of tuples and structs in their place, however deep."""
    out: list[Any] = []
    for x in args:
        if is_composite(type(x)):
            out += flattened(items_of(x))
        else:
            out.append(x)
    return out


def mapped(args: tuple[Any, ...], change: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The arguments of a launch with each that `flattened` lists changed, in that order."""
    return tuple(
        instance(type(x), mapped(items_of(x), change)) if is_composite(type(x)) else change(x)
        for x in args
    )


def structure_of(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What `flattened` drops: equal where arguments are taken apart alike."""
    return tuple(_structure(args))


def _structure(args: tuple[Any, ...]) -> Iterator[Any]:
    for x in args:
        kind = type(x)
        if is_composite(kind):
            items = items_of(x)
            yield kind, len(items)
            yield from _structure(items)
        else:
            yield None


@per_class
def declared_types(kind: Any) -> dict[str, DType | type]:
    """Of a struct's fields those that are annotated by a dtype or a struct, and by which.

    Annotations that name something else, such as ``float`` or ``Any``, leave the type open.
    """
    types: dict[str, DType | type] = {}
    for base in reversed(kind.__mro__):
        space = vars(sys.modules.get(base.__module__, object))
        for name, annotation in inspect.get_annotations(base).items():
            declared = _declared(annotation, dict(space))
            if declared is not None:
                types[name] = declared
    return {name: types[name] for name in field_names(kind) if name in types}


def _declared(annotation: Any, space: dict[str, Any]) -> DType | type | None:
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, space)  # noqa: S307 - as typing.get_type_hints does
        except Exception:  # noqa: BLE001 - names for type checkers alone may mean nothing here
            return None
    if isinstance(annotation, DType):
        return annotation
    for said in getattr(annotation, "__metadata__", ()):  # of typing.Annotated
        declared = _declared(said, space)
        if declared is not None:
            return declared
    if not isinstance(annotation, type):
        return None
    if issubclass(annotation, np.generic):
        try:
            return dtype(annotation)
        except DTypeError:
            return None
    return annotation if is_struct_type(annotation) else None
