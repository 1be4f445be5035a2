"""Spellings that steer a dialect clear of what a device's compiler gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from portable.backend.faults import Fault
from portable.lang.emit.dialect import Dialect, Helper

_SIGNED_PRODUCT: Final = Helper(
    """{T} {name}({T} x, {T} y)
{{
    const {U} high = mul_hi(({U})x, ({U})y);
    return ({T})(high - ({U})((x >> {bits} - 1) & y) - ({U})((y >> {bits} - 1) & x));
}}"""
)
"""The product of unsigned numbers, and what each sign takes off its upper half."""

_HIDDEN_NEGATIVE: Final = Helper(
    """{T} {name}({T} x)
{{
    {U} negative;
    {asm}("xor.b{bits} %0, %1, -1;" : "={r}"(negative) : "{r}"(({U})x - 1));
    return ({T})negative;
}}"""
)
"""The complement of one less. NVIDIA's compiler would find out that this is the negative, but does
not read the assembler's text, and the assembler does not find out."""


def _unsigned_products(dialect: Dialect) -> Dialect:
    return replace(
        dialect,
        functions={**dialect.functions, "mulhi.i64": "@signed_product"},
        helpers={**dialect.helpers, "signed_product": _SIGNED_PRODUCT},
    )


def _hidden_negatives(dialect: Dialect) -> Dialect:
    return replace(
        dialect,
        functions={**dialect.functions, "neg.i": "@minus", "neg.u": "@minus"},
        helpers={**dialect.helpers, "minus": _HIDDEN_NEGATIVE},
    )


_STEERING: Final[dict[Fault, Callable[[Dialect], Dialect]]] = {
    Fault.UNBOUNDED_NEGATIVES: _unsigned_products,
    Fault.FUSED_NEGATIVES: _hidden_negatives,
}


def steered(dialect: Dialect, faults: Iterable[Fault]) -> Dialect:
    """The dialect for a compiler with these faults."""
    for fault in sorted(faults):
        if fault in _STEERING:
            dialect = _STEERING[fault](dialect)
    return dialect
