"""Passes that turn what speed needs into what a device has.

`copies` lowers copies of tiles to each work-item's share. Matrix fragments are lowered first,
since that may give local arrays new layouts. `negations` and `complements` steer clear of faults of
compilers that the device declares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from portable.backend import Capabilities
from portable.faults import Fault
from portable.lang.ir.kernel import Kernel
from portable.lang.passes.complements import lower_complements
from portable.lang.passes.copies import lower_copies
from portable.lang.passes.matrix import lower_matrices
from portable.lang.passes.negations import keep_negations, plain_negations

__all__ = ["lower"]

_AVOIDING: Final[dict[Fault, Callable[[Kernel], Kernel]]] = {
    Fault.FUSED_NEGATIVES: plain_negations,
    Fault.FORGOTTEN_NEGATIVES: keep_negations,
    Fault.LOST_COMPLEMENTS: lower_complements,
}


def lower(kernel: Kernel, capabilities: Capabilities) -> Kernel:
    """The kernel in terms that emitters print, for one device."""
    if kernel.fragments:
        kernel = lower_matrices(kernel, capabilities)
    kernel = lower_copies(kernel, capabilities)
    for fault, avoid in _AVOIDING.items():
        if fault in capabilities.faults:
            kernel = avoid(kernel)
    return kernel
