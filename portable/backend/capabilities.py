"""What devices can do and what their compilers get wrong, as plans and kernels ask for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

# Known faults of device compilers, by name, which generated code steers clear of.
#
# A backend declares those of its compiler in `portable.backend.Capabilities.faults`. Passes
# (`portable.lang.passes`) and emitters (`portable.lang.emit`) avoid what is declared and nothing
# else, so that a new device starts with none, and a mended compiler is served by taking a name out.


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


class Asked:
    """A number, 0 by default, or a function that finds it out and is asked on the first read.

    For what only some kernels want to know and what takes a compiler to find out. To copy what has
    such a field, by `dataclasses.replace`, reads it, unless it is given anew: as a function.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = "_" + name

    def __get__(self, instance: object, owner: type) -> int:
        if instance is None:
            return 0  # what dataclasses take as the default
        value = instance.__dict__[self._name]
        if callable(value):
            value = instance.__dict__[self._name] = value()
        return int(value)

    def __set__(self, instance: object, value: int | Callable[[], int]) -> None:
        instance.__dict__[self._name] = value


_AVX512: Final = 64
"""Bytes of its vectors, for which it has twice as many registers as there are for narrower ones."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What one device can do. Kernels see these as ``kl.target.<name>``, constants.

    Attributes
    ----------
    dialect : str
        What its compiler takes; ``"ir"`` where there is none, as in the simulator as such.
    kind : {"cpu", "gpu", "accelerator", "simulator"}
        What it is.
    vendor, architecture, name, driver : str
        Lower-case vendor (``"nvidia"``), architecture (``"sm_90"``, or the model), the marketing
        name, and the driver's version: tuning tables are looked up by them, compiled programs keyed
        by them.
    float64, native_half : bool
        Whether kernels may use ``float64``, and compute (not only store) in ``float16``.
    sub_group_size : int
        1 where there are none, else 8, 16, 32 or 64.
    matrix_units : frozenset of str
        Instruction sets for matrix fragments: ``"mma.f16"``, ``"mma.bf16"``, ``"mma.tf32"``,
        ``"mma.f64"``, ``"wgmma.tf32"``, ``"wgmma.f16"``, ``"wgmma.bf16"``,
        ``"wgmma.f8e4m3"``, ``"wgmma.f8e5m2"``, ``"wgmma.i8"``.
    async_copy : frozenset of str
        ``"vector"`` (cp.async), ``"bulk"`` (cp.async.bulk with mbarriers) and ``"tensor"``
        (cp.async.bulk.tensor, of boxes of arrays that are described at launch).
    local_memory, local_memory_opt_in : int
        Bytes per workgroup, by default and when a kernel asks for more.
    local_memory_seen : int
        Bytes per workgroup that arrays of a kernel were seen to have though the driver tells of
        fewer; 0 where nobody looked. For kernels that were measured with so much: others, which
        would take it as well, were seen to become slower.
    local_memory_dedicated : bool
        Whether local memory is on-chip storage of its own rather than ordinary cached memory.
    max_workgroup : int
        Most work-items of a workgroup.
    max_workgroup_shape : (int, int, int)
        The most along each dimension.
    max_groups : (int, int, int)
        Workgroups of a launch along each dimension.
    compute_units : int
        Multiprocessors, or cores.
    vector_bytes : int
        Widest vector load worth issuing: 16 on GPUs, the SIMD register on CPUs.
    vector_registers : int
        Of a processor: how many SIMD registers there are, 32 with NEON or AVX-512, 16 with AVX2; 0
        where nobody says (`most_vectors` tells then what to reckon with).
    vectorizes_work_items : bool
        Whether the compiler spreads a CPU's vector lanes over work-items by itself.
    single_work_items : bool
        How work-items are best used. True: few of them, each a workgroup of its own with long loops
        over vectors, as on processors. False: many that share a workgroup's work, neighbours
        reading neighbouring memory, as on GPUs.
    cache_line : int
        Bytes that memory and caches exchange at a time.
    streaming_stores : bool
        Whether stores can pass the caches by, which spares reading lines before they are written.
    compressed_bytes : int
        The longest vectors of which an instruction brings chosen lanes to the front, as
        `kl.compress` does; 0 where lanes of 32 and 64 bits are moved one by one.
    atomics64, float_atomics : bool
        Whether 64-bit integers, and floats by addition, have native atomics.
    workgroup_atomics : bool
        Whether additions by the work-items of one workgroup cost no more than plain ones, since one
        thread runs them.
    atomic_lanes : int
        To how many neighbouring ``float32`` one instruction adds at most.
    memory_orders : {"relaxed", "acq_rel"}
        The strongest order that device-wide atomics offer.
    forward_progress : bool
        Whether a workgroup that waits for one of a lower ticket is promised to see it finish.
    unified_memory : bool
        Whether kernels work on host memory without a copy.
    streams : bool
        Whether its streams run beside each other; else all are one queue, in order.
    replays : bool
        Whether many launches that were recorded are enqueued again in far less time than each by
        itself (`portable.backend.Device.replay`).
    subnormals32 : bool
        Whether ``float32`` keeps subnormal numbers.
    rounded_division32 : bool
        Whether ``float32`` division and square root are correctly rounded.
    global_memory, max_allocation : int
        Bytes in all, and in one piece.
    pointer_offsets : bool
        Whether arrays arrive as buffer plus element offset rather than as one pointer.
    faults : frozenset of Fault
        What its compiler is known to get wrong, for generated code to avoid.
    """

    dialect: str
    kind: Literal["cpu", "gpu", "accelerator", "simulator"]
    vendor: str
    architecture: str
    name: str
    driver: str
    float64: bool
    native_half: bool
    sub_group_size: int = 1
    matrix_units: frozenset[str] = field(default_factory=frozenset)
    async_copy: frozenset[str] = field(default_factory=frozenset)
    local_memory: int = 32 * 1024
    local_memory_opt_in: int = 32 * 1024
    local_memory_seen: int = 0
    local_memory_dedicated: bool = True
    max_workgroup: int = 256
    max_workgroup_shape: tuple[int, int, int] = (256, 256, 64)
    max_groups: tuple[int, int, int] = (2**31 - 1, 2**31 - 1, 2**31 - 1)
    compute_units: int = 1
    vector_bytes: int = 16
    vector_registers: int = 0
    vectorizes_work_items: bool = False
    single_work_items: bool = False
    cache_line: int = 64
    streaming_stores: bool = False
    compressed_bytes: Asked = Asked()
    atomics64: bool = True
    float_atomics: bool = False
    workgroup_atomics: bool = False
    atomic_lanes: int = 1
    memory_orders: Literal["relaxed", "acq_rel"] = "relaxed"
    forward_progress: bool = False
    unified_memory: bool = False
    streams: bool = False
    replays: bool = False
    subnormals32: bool = True
    rounded_division32: bool = True
    global_memory: int = 0
    max_allocation: int = 0
    pointer_offsets: bool = False
    faults: frozenset[Fault] = field(default_factory=frozenset)

    @property
    def local_memory_most(self) -> int:
        """Bytes per workgroup beyond which a kernel is refused."""
        return max(self.local_memory, self.local_memory_opt_in, self.local_memory_seen)

    @property
    def most_vectors(self) -> int:
        """Vectors that a processor has registers for, by their width where it does not say."""
        return self.vector_registers or (32 if self.vector_bytes >= _AVX512 else 16)

    def __hash__(self) -> int:
        """By what tells most devices apart: plans are looked up by capabilities at each call."""
        return hash((self.dialect, self.architecture, self.name, self.driver))
