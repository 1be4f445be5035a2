"""Words that steer the compiler: kinds of loops, and assumptions that it need not prove."""

from __future__ import annotations

from math import prod
from typing import Any

from portable.dtypes import bool_
from portable.lang.frontend.arithmetic import binary
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import as_value
from portable.lang.frontend.handlers.collectives import linear_id
from portable.lang.frontend.handlers.memory import fragment_of
from portable.lang.frontend.handlers.registry import handles
from portable.lang.frontend.values import Elements, Range, Value, VectorRange, describe
from portable.lang.ir import statements as s

# What loops run over.


@handles("static_range")
def _static_range(builder: Builder, start: Any, stop: Any, step: Any) -> Range:
    return _range(builder, start, stop, step, static=True)


@handles("range")
def _dynamic_range(builder: Builder, start: Any, stop: Any, step: Any, unroll: Any) -> Range:
    return _range(builder, start, stop, step, unroll)


@handles("workgroup_range")
def _workgroup_range(builder: Builder, start: Any, stop: Any, step: Any, unroll: Any) -> Range:
    whole = _range(builder, start, stop, step, unroll)
    size = prod(builder.workgroup)
    if size == 1:
        return whole
    ahead = binary(builder, "mul", linear_id(builder), whole.step)
    first = binary(builder, "add", whole.start, ahead)
    return Range(first, whole.stop, binary(builder, "mul", whole.step, size), unroll)


def _range(
    builder: Builder, start: Any, stop: Any, step: Any, unroll: int = 0, *, static: bool = False
) -> Range:
    if stop is None:
        start, stop = 0, start
    for x in (start, stop, step):
        integer = isinstance(x, Value) and x.dtype.is_integer and x.lanes == 1
        if not integer and (not isinstance(x, int) or isinstance(x, bool)):
            builder.fail(f"range takes integers, not {describe(x)}")
    if isinstance(step, int) and step == 0:
        builder.fail("the step of a range cannot be zero")
    return Range(start, stop, step, unroll, static)


@handles("vector_range")
def _vector_range(builder: Builder, start: Any, stop: Any, lanes: Any, unroll: Any) -> VectorRange:
    if not isinstance(lanes, int) or isinstance(lanes, bool) or lanes < 1:
        builder.fail(f"kl.vector_range takes a positive constant as lanes, not {describe(lanes)}")
    return VectorRange(_range(builder, start, stop, 1, unroll), lanes)


@handles("elements")
def _elements(builder: Builder, fragment: Any) -> Elements:
    return Elements(fragment_of(builder, fragment, "kl.elements"))


# Conditions that authors hold for certain.


@handles("check")
def _check(builder: Builder, condition: Any, message: Any) -> None:
    value = as_value(builder, condition)
    if value.type is not bool_:
        builder.fail(
            f"kl.check takes a bool, not {describe(condition)}", "compare it: write x != 0"
        )
    if not isinstance(message, str):
        builder.fail(f"the message of kl.check is a string, not {describe(message)}")
    if condition is not True:
        builder.emit(s.Check(value.expr, message, builder.location))
