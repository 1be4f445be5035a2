"""Rounds constants itself, for compilers that do not find out what their own library gives.

PoCL's library converts to integers and back on the way to a rounded float, and takes the float
itself where that is too large. Compilers are free to make anything of such a conversion of a
constant beyond the integers: PoCL 3.1 dropped the branch in which ``rint(2147483648.0f)`` stood.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from portable.lang.ir import expressions as e
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.walk import map_block, map_expression, map_operands

_ROUNDED: Final[dict[str, Callable[[float], float]]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "rint": round,
    "trunc": math.trunc,
}


def round_constants(kernel: Kernel) -> Kernel:
    """The kernel with roundings of constants replaced by what they give."""
    body = map_block(
        kernel.body, lambda x: (map_operands(x, lambda y: map_expression(y, _rounded)),)
    )
    return replace(kernel, body=body)


def _rounded(x: e.Expression) -> e.Expression:
    match x:
        case e.Call(function=name, arguments=(e.Const(float(value)) as given,)) if name in _ROUNDED:
            held = float(given.type.numpy.type(value))
            if not math.isfinite(held):
                return x
            return e.Const(math.copysign(float(_ROUNDED[name](held)), held), given.type)
        case _:
            return x
