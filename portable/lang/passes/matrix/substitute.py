"""Puts arrays in the place of others, wherever a kernel names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from portable.lang.ir import statements as s
from portable.lang.ir.types import Array, Region
from portable.lang.ir.walk import map_block

__all__ = ["substitute"]


def substitute(body: s.Block, new: Mapping[Array, Array]) -> s.Block:
    """The block with every array that is a key of `new` replaced; the indices stay."""
    if not new:
        return body
    return map_block(body, lambda x: (_statement(x, new),))


def _statement(x: s.Statement, new: Mapping[Array, Array]) -> s.Statement:
    changes: dict[str, Any] = {}
    for field in fields(x):
        old = getattr(x, field.name)
        changed = _value(old, new)
        if changed is not old:
            changes[field.name] = changed
    return replace(x, **changes) if changes else x


def _value(x: Any, new: Mapping[Array, Array]) -> Any:
    if isinstance(x, Array):
        return new.get(x, x)
    if isinstance(x, Region):
        return replace(x, array=new[x.array]) if x.array in new else x
    if isinstance(x, tuple) and any(isinstance(item, tuple) for item in x):
        items = tuple(_value(item, new) for item in x)
        return items if any(a is not b for a, b in zip(items, x, strict=True)) else x
    if isinstance(x, tuple) and x and isinstance(x[0], Array):
        return (new.get(x[0], x[0]), *x[1:])
    return x
