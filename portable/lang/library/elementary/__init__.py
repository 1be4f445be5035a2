"""Elementary functions as functions of the language, made of fma, bits and polynomials.

For languages that have no such functions of their own (`portable.lang.passes.functions`). They keep
to the bounds in `portable.lang.ir.elementwise` on every processor and give the same bits on all.
"""

from __future__ import annotations

from typing import Final

from portable.lang.function import Function
from portable.lang.ir.elementwise import FUNCTIONS
from portable.lang.library.elementary import powers, trigonometric

__all__ = ["ELEMENTARY"]

ELEMENTARY: Final[dict[str, Function]] = {
    name: function
    for module in (powers, trigonometric)
    for name, function in vars(module).items()
    if name in FUNCTIONS
}
"""By the names that `portable.lang.ir.elementwise.FUNCTIONS` has."""
