"""Known faults of device compilers, by name, which generated code steers clear of.

A backend declares those of its compiler in `portable.backend.Capabilities.faults`. Passes
(`portable.lang.passes`) and emitters (`portable.lang.emit`) avoid what is declared and nothing
else, so that a new device starts with none, and a mended compiler is served by taking a name out.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """What a compiler gets wrong."""

    FORGOTTEN_NEGATIVES = "forgotten negatives"
    """A negated float is not kept for each work-item across a barrier: all see the last one's."""

    LOST_COMPLEMENTS = "lost complements"
    """Minima and maxima of complements, of integers from memory, work on other registers."""

    STALE_LOCAL_LOADS = "stale local loads"
    """Loads of local memory at a constant index may give what was there before a barrier."""

    UNBOUNDED_NEGATIVES = "unbounded negatives"
    """The upper half of a 64-bit product takes the negative of the least integer as positive."""

    FUSED_NEGATIVES = "fused negatives"
    """Two minima or maxima become one instruction of three operands, which cannot negate any."""

    CRASHING_LOOPS = "crashing loops"
    """The compiler may crash on kernels of several loops that hold barriers or end anywhere."""

    MERGED_SINES = "merged sines"
    """The compiler may crash on kernels that take the sine and the cosine of one number."""

    LOST_LANES = "lost lanes"
    """What work-items assign in branches of their own may be lost in long kernels with shuffles."""

    LOST_ROUNDS = "lost rounds"
    """Optimised, long kernels of several loops that end by a condition may forget assignments."""

    LOST_BRANCHES = "lost branches"
    """What a branch assigns after a barrier in it may be forgotten where the branch ends.

    At the end of a round of a loop with barriers all work-items may branch as the first does.
    """

    ROUNDED_CONSTANTS = "rounded constants"
    """A branch in which a constant beyond the integers is rounded may be taken to be dead."""

    WIDE_CALLS = "wide calls"
    """Built-in functions may get vectors of more than 32 bytes wrongly."""


INTEL_CPU: Final = frozenset({
    Fault.FORGOTTEN_NEGATIVES,
    Fault.LOST_COMPLEMENTS,
    Fault.STALE_LOCAL_LOADS,
    Fault.UNBOUNDED_NEGATIVES,
    Fault.CRASHING_LOOPS,
    Fault.MERGED_SINES,
    Fault.LOST_LANES,
    Fault.LOST_ROUNDS,
})  # fmt: skip
"""Of Intel's OpenCL runtime for processors, 2026.22.10."""

NVIDIA: Final = frozenset({Fault.FUSED_NEGATIVES})
"""Of NVIDIA's assembler, in CUDA and in OpenCL: seen in 12.9 to 13.2, not in 12.0 and 13.5."""

POCL: Final = frozenset({Fault.WIDE_CALLS, Fault.LOST_BRANCHES, Fault.ROUNDED_CONSTANTS})
"""Of PoCL, 3.0 and 3.1, whose library may be built for another instruction set than kernels are."""
