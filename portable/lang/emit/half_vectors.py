"""OpenCL C for vectors of halves that GPUs move in one piece."""

from __future__ import annotations

from typing import Final, Literal

from portable.lang.emit.context import Context

__all__ = ["half_mover"]

_CARRIERS: Final = {2: "uint", 4: "uint2", 8: "uint4"}
_LOAD: Final = """\
{function} float{lanes} {name}({space}const half *p)
{{
    const {carrier} bits = *({space}const {carrier} *)p;
    return vload_half{lanes}(0, (__private const half *)&bits);
}}"""
_STORE: Final = """\
{function} void {name}({space}half *p, float{lanes} x)
{{
    {carrier} bits;
    vstore_half{lanes}_rte(x, 0, (__private half *)&bits);
    *({space}{carrier} *)p = bits;
}}"""


def half_mover(context: Context, word: Literal["load", "store"], space: str, lanes: int) -> str:
    """The name of a function that loads or stores 2, 4 or 8 aligned halves.

    NVIDIA's ``vloada_half8`` and ``vstorea_half8`` move them one by one, at a quarter of the
    memory's speed; on private memory they are conversions between registers.

    Parameters
    ----------
    context : Context
        Where the function is declared.
    word : {"load", "store"}
    space : str
        Of the memory.
    lanes : int
    """
    name = f"pt_{word}_half{lanes}_{space}"
    text = (_LOAD if word == "load" else _STORE).format(
        function=context.dialect.function,
        name=name,
        lanes=lanes,
        carrier=_CARRIERS[lanes],
        space=context.dialect.spaces[space],
    )
    return context.prelude.define(name, lambda: text)
