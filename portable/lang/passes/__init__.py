"""Passes between the front end and the printers of languages.

What `portable.lang.tiles` gives still means what the language promises. `reduced` turns it into
operators that other languages have, so that their printers only print: `places` (ends of ndranges,
numbers of work-items), `narrow_floats`, `sub_groups`, `loops`, `operators` (with `division`) and
`functions`. `compiler_faults` and `joins` steer clear of what compilers get wrong by the device's
own account, `wrapping` of what C leaves undefined. `bindings` names what a pass needs twice.

For languages that know nothing of work-items, `work_items` makes loops over them of what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from portable.backend import Capabilities
from portable.backend.capabilities import Fault
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.passes.bindings import Bindings
from portable.lang.passes.compiler_faults import (
    keep_negations,
    lower_complements,
    plain_negations,
    round_constants,
    separate_sines,
)
from portable.lang.passes.functions import lower_functions
from portable.lang.passes.joins import meet_after_barriers
from portable.lang.passes.loops import lower_loops
from portable.lang.passes.narrow_floats import lower_narrow_floats
from portable.lang.passes.operators import lower_operators
from portable.lang.passes.places import end_ranges, launched_flat
from portable.lang.passes.semantics import Semantics
from portable.lang.passes.sub_groups import lower_sub_groups
from portable.lang.passes.wrapping import wrap_signed

__all__ = ["reduced"]

_AVOIDING: Final[dict[Fault, Callable[[Kernel], Kernel]]] = {
    Fault.FUSED_NEGATIVES: plain_negations,
    Fault.FORGOTTEN_NEGATIVES: keep_negations,
    Fault.MERGED_SINES: separate_sines,
    Fault.LOST_COMPLEMENTS: lower_complements,
    Fault.LOST_BRANCHES: meet_after_barriers,
    Fault.ROUNDED_CONSTANTS: round_constants,
}


def reduced(kernel: Kernel, capabilities: Capabilities, semantics: Semantics) -> Kernel:
    """A kernel of `portable.lang.tiles.lower` in operators that a language means by `semantics`.

    Parameters
    ----------
    kernel : Kernel
    capabilities : Capabilities
        Of the device.
    semantics : Semantics
        What the language's operators mean.
    """
    kernel = launched_flat(lower_narrow_floats(end_ranges(kernel)), semantics)
    bindings = Bindings(Facts(kernel))
    kernel = lower_sub_groups(kernel, bindings)
    kernel = lower_loops(kernel, bindings)
    kernel = lower_operators(kernel, semantics, bindings)
    kernel = lower_functions(kernel, capabilities, semantics, bindings)
    for fault, avoid in _AVOIDING.items():
        if fault in capabilities.faults:
            kernel = avoid(kernel)
    return kernel if semantics.signed_wraps else wrap_signed(kernel, bindings.facts)
