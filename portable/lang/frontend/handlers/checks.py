"""Conditions that authors hold for certain."""

from __future__ import annotations

from typing import Any

from portable.dtypes import bool_
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import as_value
from portable.lang.frontend.handlers.registry import handles
from portable.lang.frontend.values import describe
from portable.lang.ir import statements as s


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
