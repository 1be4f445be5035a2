"""Effects and control flow, each with the place in the user's source that it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from portable.backend import Box
from portable.errors import Location
from portable.lang.ir.expressions import (
    BINDS,
    BLOCK,
    READS,
    SETS,
    UPDATES,
    WRITES,
    Expression,
    Memory,
    Region,
    Role,
    Variable,
    fields_of,
    memory,
    variables,
)
from portable.lang.ir.types import Array, Fragment, Scope

_BOUND: Final = fields_of(Role.BINDS)
_SET: Final = fields_of(Role.SETS, Role.UPDATES)
_WRITTEN: Final = fields_of(Role.WRITES, Role.UPDATES)

USED: Final = fields_of(Role.READS, Role.WRITES, Role.UPDATES)
"""What a statement evaluates, reads or writes."""
BLOCKS: Final = fields_of(Role.BLOCK)
"""The blocks directly inside it."""

MemoryOrder = Literal["relaxed", "acquire", "release", "acq_rel"]
MemoryScope = Literal["workgroup", "device"]

Address = tuple[Array, tuple[Expression, ...]]
"""An array and the index of an element."""


class Statement:
    """A statement: a frozen dataclass whose fields say what they are (`Role`).

    Walkers, passes and checks go by that, so that a new statement is known to all of them but
    those that give it its meaning: the printers, the simulator and, for control flow, the check of
    uniformity, which refuse what they do not know by its name.
    """

    __slots__ = ()

    loc: Location

    alike: ClassVar[bool] = False
    """Whether what it reads must be the same for all work-items that get to it together."""

    reached_by: ClassVar[Scope] = "work_item"
    """Whose work-items must get to it together, unless a matrix says it (`together`)."""

    def together(self) -> Scope:
        """Whose work-items must get to it together: ``"work_item"`` where each may by itself."""
        return self.reached_by

    def binds(self) -> tuple[Variable, ...]:
        """The new names that it gives values to."""
        return tuple(variables(_BOUND.values_in(self))) if _BOUND[type(self)] else ()

    def sets(self) -> tuple[Variable, ...]:
        """The variables of the kernel that it may give new values to."""
        return tuple(variables(_SET.values_in(self))) if _SET[type(self)] else ()

    def touched(self) -> tuple[Memory, ...]:
        """The arrays and fragments that it reads or writes."""
        return tuple(memory(USED.values_in(self))) if USED[type(self)] else ()

    def written(self) -> tuple[Memory, ...]:
        """The arrays and fragments that it may write."""
        return tuple(memory(_WRITTEN.values_in(self))) if _WRITTEN[type(self)] else ()

    def blocks(self) -> tuple[Block, ...]:
        """The blocks directly inside it."""
        return tuple(BLOCKS.values_in(self))


Block = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Let(Statement):
    """Binds a new name, visible until the end of the block, to a value that never changes."""

    var: Variable = field(metadata=BINDS)
    value: Expression = field(metadata=READS)
    loc: Location


@dataclass(frozen=True, slots=True)
class Assign(Statement):
    """Gives a variable that `kernel.Kernel.variables` declares a new value."""

    var: Variable = field(metadata=SETS)
    value: Expression = field(metadata=READS)
    loc: Location


@dataclass(frozen=True, slots=True)
class Load(Statement):
    """Binds `var` (as `Let` does) to an element of `array`, or to a vector of neighbours.

    Loads widen: ``float16`` gives ``float32`` (unless `var` is ``float16``, in ``native_half``
    kernels), 8- and 16-bit integers give ``int32``/``uint32``. For a vector, lane ``l`` comes from
    the index with ``l`` added along dimension `axis`, which need be neither contiguous nor aligned.
    Of a complex array `component` 0 is the real and 1 the imaginary part. A private array whose
    elements are vectors (`Array.lanes`) gives whole vectors. With `runs_on` the last index counts
    on into the rows that follow, which lie in memory without a gap. What lies `ahead` elements
    further in memory may be fetched to the caches.
    """

    var: Variable = field(metadata=BINDS)
    array: Array = field(metadata=READS)
    index: tuple[Expression, ...] = field(metadata=READS)
    loc: Location
    axis: int = -1
    component: int | None = None
    runs_on: bool = False
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Store(Statement):
    """Writes a scalar or vector; the mirror image of `Load`.

    Narrowing rounds once, to nearest even, for ``float16`` and wraps for integers. A `streaming`
    store may pass by the caches.
    """

    array: Array = field(metadata=WRITES)
    index: tuple[Expression, ...] = field(metadata=READS)
    value: Expression = field(metadata=READS)
    loc: Location
    axis: int = -1
    component: int | None = None
    runs_on: bool = False
    streaming: bool = False


AtomicOp = Literal[
    "load", "store", "add", "sub", "min", "max", "and", "or", "xor", "exchange", "compare_exchange"
]


@dataclass(frozen=True, slots=True)
class Atomic(Statement):
    """An indivisible operation on an element of a global or local array.

    `var` (None when unused) gets the value from before. The element type is a 32- or 64-bit
    integer, ``float32`` or ``float64`` (add, exchange, load, store, min, max). A
    ``compare_exchange`` stores `value` where the element equals `expected`.
    """

    var: Variable | None = field(metadata=BINDS)
    op: AtomicOp
    array: Array = field(metadata=UPDATES)
    index: tuple[Expression, ...] = field(metadata=READS)
    value: Expression | None = field(metadata=READS)
    expected: Expression | None = field(metadata=READS)
    order: MemoryOrder
    scope: MemoryScope
    loc: Location

    def written(self) -> tuple[Memory, ...]:
        """The array, unless it is only loaded from."""
        return () if self.op == "load" else (self.array,)


@dataclass(frozen=True, slots=True)
class Barrier(Statement):
    """All work-items of the workgroup meet; their local and global accesses are ordered.

    Attributes
    ----------
    loc : Location
    meeting : int
        How many work-items do, the first ones, in whole sub-groups; 0 stands for all.
    """

    reached_by: ClassVar[Scope] = "workgroup"

    loc: Location
    meeting: int = 0


@dataclass(frozen=True, slots=True)
class Fence(Statement):
    """Orders this work-item's accesses before and after it, as others in `scope` see them."""

    order: MemoryOrder
    scope: MemoryScope
    loc: Location


@dataclass(frozen=True, slots=True)
class If(Statement):
    """A branch."""

    condition: Expression = field(metadata=READS)
    then: Block = field(metadata=BLOCK)
    orelse: Block = field(metadata=BLOCK)
    loc: Location


FEW: Final = -2
"""Of a loop with so few rounds that copies of its body, or vectors of them, gain nothing."""


@dataclass(frozen=True, slots=True)
class For(Statement):
    """``for var in range(start, stop, step)``: Python's, the bounds evaluated once.

    `var` is bound anew each round and never reassigned; all have its type. A constant `step` is
    not zero; one only known at run time being zero means no round at all. `unroll`: 0 leaves it to
    the compiler, a number asks for so many copies of the body, -1 for full unrolling (the trip
    count is then a constant), 1 forbids it, `FEW` says that the rounds are.
    """

    var: Variable = field(metadata=BINDS)
    start: Expression = field(metadata=READS)
    stop: Expression = field(metadata=READS)
    step: Expression = field(metadata=READS)
    body: Block = field(metadata=BLOCK)
    loc: Location
    unroll: int = 0


@dataclass(frozen=True, slots=True)
class Loop(Statement):
    """Repeats its body until a `Break` or `Return`; ``while`` becomes a break at its top."""

    body: Block = field(metadata=BLOCK)
    loc: Location


@dataclass(frozen=True, slots=True)
class Break(Statement):
    """Leaves the innermost `For` or `Loop`."""

    loc: Location


@dataclass(frozen=True, slots=True)
class Continue(Statement):
    """Starts the next round of the innermost `For` or `Loop`."""

    loc: Location


@dataclass(frozen=True, slots=True)
class Return(Statement):
    """Ends this work-item."""

    loc: Location


SubGroupOp = Literal[
    "shuffle",
    "shuffle_xor",
    "shuffle_up",
    "shuffle_down",
    "broadcast",
    "reduce_add",
    "reduce_min",
    "reduce_max",
    "reduce_and",
    "reduce_or",
    "reduce_xor",
    "scan_add",
    "any",
    "all",
]


@dataclass(frozen=True, slots=True)
class SubGroup(Statement):
    """Binds `var` to a value worked out by the sub-group together; all its work-items get here.

    ``shuffle`` reads `value` of the work-item whose sub_group_local_id is `argument`,
    ``shuffle_xor`` of the own id xor `argument`, ``shuffle_up``/``shuffle_down`` of the own id
    minus/plus `argument`, ``broadcast`` of the uniform `argument`. A source outside the sub-group
    (or beyond the workgroup's last work-item) gives the work-item's own `value`. The reductions
    give every work-item the same result, in no promised order for floats; ``scan_add`` is
    inclusive. ``any all`` take and give bool. The sub-group may be of size 1.
    """

    reached_by: ClassVar[Scope] = "sub_group"

    var: Variable = field(metadata=BINDS)
    op: SubGroupOp
    value: Expression = field(metadata=READS)
    argument: Expression | None = field(metadata=READS)
    loc: Location


@dataclass(frozen=True, slots=True)
class WorkgroupUniform(Statement):
    """Binds `var`, for the whole workgroup, to `value` as work-item 0 (linear local id) has it.

    Acts as a barrier before and after.
    """

    reached_by: ClassVar[Scope] = "workgroup"

    var: Variable = field(metadata=BINDS)
    value: Expression = field(metadata=READS)
    loc: Location


@dataclass(frozen=True, slots=True)
class WorkgroupReduce(Statement):
    """Binds `var`, for the whole workgroup, to the sum or extreme of all work-items' `value`.

    Only kernels whose options say `whole_reductions` have it: whoever asks for them writes them
    out. It orders no memory, and sums in no promised order.
    """

    reached_by: ClassVar[Scope] = "workgroup"

    var: Variable = field(metadata=BINDS)
    op: Literal["add", "min", "max"]
    value: Expression = field(metadata=READS)
    loc: Location


@dataclass(frozen=True, slots=True)
class Print(Statement):
    """Prints text pieces and scalars in turn, then a line end; for debugging."""

    pieces: tuple[str | Expression, ...] = field(metadata=READS)
    loc: Location


@dataclass(frozen=True, slots=True)
class Check(Statement):
    """The author holds `condition`, a bool, for certain.

    The simulator reports where it is not. `portable.lang.launch.checked_kernels` turns it into a
    report; devices do nothing for what is left.
    """

    condition: Expression = field(metadata=READS)
    message: str
    loc: Location


@dataclass(frozen=True, slots=True)
class CopyTile(Statement):
    """The workgroup together copies `source` to `target`, regions of the same shape and dtype.

    One is global and one local. Elements of the global region that lie outside its array are read
    as zero, or not written. The copy joins the group of copies that the next `CopyCommit` closes
    and may happen at any time until a `CopyWait` has waited for that group; other work-items may
    rely on it after a barrier that follows their own wait. With `asynchronous` False it is
    done, as far as this work-item's share goes, when the statement is. `by` holds the number of the
    first of the work-items that copy, a multiple of how many they are, and how many; None stands
    for all. Where there is a `completion`, an mbarrier's array and index, one work-item asks a copy
    engine (TMA) for the whole of it, and the bytes are reported there.
    """

    alike: ClassVar[bool] = True
    reached_by: ClassVar[Scope] = "workgroup"

    target: Region = field(metadata=WRITES)
    source: Region = field(metadata=READS)
    loc: Location
    asynchronous: bool = True
    by: tuple[int, int] | None = None
    completion: Address | None = field(default=None, metadata=UPDATES)


@dataclass(frozen=True, slots=True)
class CopyVector(Statement):
    """This work-item copies `lanes` neighbours along the axes; `CopyTile` is lowered to it.

    `valid` (of index type, clamped to 0..lanes) elements are copied and the rest of the local
    target is set to zero (global to local). Completion is as of `CopyTile`. The addresses are
    aligned to the whole copy's size, which is 4, 8 or 16 bytes.
    """

    target: Array = field(metadata=WRITES)
    target_index: tuple[Expression, ...] = field(metadata=READS)
    source: Array = field(metadata=READS)
    source_index: tuple[Expression, ...] = field(metadata=READS)
    lanes: int
    valid: Expression = field(metadata=READS)
    loc: Location


@dataclass(frozen=True, slots=True)
class CopyCommit(Statement):
    """Closes this work-item's current group of asynchronous copies (it may be empty)."""

    loc: Location


@dataclass(frozen=True, slots=True)
class CopyWait(Statement):
    """Waits until at most `pending` (a constant) of this work-item's closed groups are unfinished.

    0 waits for copies in both directions; writes to global memory are then visible as if the
    work-item had stored them.
    """

    pending: int
    loc: Location


@dataclass(frozen=True, slots=True)
class BulkCopy(Statement):
    """One work-item starts copying `count` consecutive elements between global and local memory.

    Only the work-item that executes it takes part. Both ends are contiguous in memory from the
    given index on (the last dimension fastest). From global to local, completion is awaited with
    `BulkWait` on `slot`, an element of the ``uint64`` local array `completion` (one use of a slot
    may cover several copies by one work-item between two waits); from local to global
    `completion` is None and `CopyCommit`/`CopyWait` by the same work-item await it. Where the
    device has no bulk copies, or the addresses or sizes are not multiples of 16 bytes, the
    work-item copies by itself.
    """

    target: Array = field(metadata=WRITES)
    target_index: tuple[Expression, ...] = field(metadata=READS)
    source: Array = field(metadata=READS)
    source_index: tuple[Expression, ...] = field(metadata=READS)
    count: Expression = field(metadata=READS)
    completion: Array | None = field(metadata=UPDATES)
    slot: Expression | None = field(metadata=READS)
    loc: Location


@dataclass(frozen=True, slots=True)
class BulkWait(Statement):
    """The workgroup waits for the bulk copies into `slot`; acts as a barrier.

    `phase` counts the earlier waits on this slot modulo 2 (0 at first). `meeting` is as of a
    `Barrier`.
    """

    alike: ClassVar[bool] = True
    reached_by: ClassVar[Scope] = "workgroup"

    completion: Array = field(metadata=UPDATES)
    slot: Expression = field(metadata=READS)
    phase: Expression = field(metadata=READS)
    loc: Location
    meeting: int = 0


class _OfMatrix:
    """What those who hold a matrix do together."""

    __slots__ = ()

    fragment: Fragment

    def together(self) -> Scope:
        """Those who hold the matrix."""
        return self.fragment.scope


@dataclass(frozen=True, slots=True)
class FragmentFill(_OfMatrix, Statement):
    """Sets every element of a fragment to a scalar of its type."""

    alike: ClassVar[bool] = True

    fragment: Fragment = field(metadata=WRITES)
    value: Expression = field(metadata=READS)
    loc: Location


@dataclass(frozen=True, slots=True)
class FragmentLoad(_OfMatrix, Statement):
    """Sets a fragment from a region of its shape; outside a global array zeros are read."""

    alike: ClassVar[bool] = True

    fragment: Fragment = field(metadata=WRITES)
    source: Region = field(metadata=READS)
    loc: Location


@dataclass(frozen=True, slots=True)
class FragmentStore(_OfMatrix, Statement):
    """Writes a fragment to a region of its shape; outside a global array nothing is written."""

    alike: ClassVar[bool] = True

    fragment: Fragment = field(metadata=READS)
    target: Region = field(metadata=WRITES)
    loc: Location


@dataclass(frozen=True, slots=True)
class Multiply(Statement):
    """``accumulator += a @ b``, each product and sum in the accumulator's type (fma allowed).

    The operands are fragments of use "a" and "b", or regions of local arrays, of shapes (M, K) and
    (K, N); floats may be narrower than the accumulator's type. The products of ``float16`` operands
    are exact in ``float32``; the order of summation is not promised. All work-items of the
    accumulator's scope get here together; that the regions were written before, and will not be
    overwritten yet, is for the user's barriers to see to. Where it begins `anew`, what the
    accumulator held before does not count.

    `valid` (m, n, k), of the kernel's index type and often beyond the shapes, says that columns of
    `a` and rows of `b` from k on are zeros, and that rows of the accumulator from m on and columns
    from n on are not needed: they may be left as they are.
    """

    alike: ClassVar[bool] = True

    accumulator: Fragment = field(metadata=UPDATES)
    a: Fragment | Region = field(metadata=READS)
    b: Fragment | Region = field(metadata=READS)
    loc: Location
    valid: tuple[Expression, Expression, Expression] | None = field(default=None, metadata=READS)
    anew: bool = False

    def together(self) -> Scope:
        """Those who hold the matrix."""
        return self.accumulator.scope


@dataclass(frozen=True, slots=True)
class ForElements(_OfMatrix, Statement):
    """Runs `body` for each element of the fragment that this work-item holds, in any order.

    `row` and `column` (of index type) and `value` (a declared variable of the fragment's element
    type) describe it; where `writes`, what `body` leaves in `value` becomes the element. Every
    element is held by exactly one work-item of the scope. `others` are what `partners`, fragments
    of the same shape, scope and use, hold in the same place.
    """

    fragment: Fragment = field(metadata=UPDATES)
    row: Variable = field(metadata=BINDS)
    column: Variable = field(metadata=BINDS)
    value: Variable = field(metadata=UPDATES)
    body: Block = field(metadata=BLOCK)
    writes: bool
    loc: Location
    partners: tuple[Fragment, ...] = field(default=(), metadata=READS)
    others: tuple[Variable, ...] = field(default=(), metadata=UPDATES)


@dataclass(frozen=True, slots=True)
class ForItems(Statement):
    """Runs `body` once for each work-item of the workgroup, in any order or side by side.

    In it the words for a work-item's place are those of one; around it one thread does the work of
    the whole workgroup. A `Return` in it ends one work-item's round. Variables that are assigned in
    a round are that round's own. `portable.lang.passes.work_items` makes it, the front end never.
    """

    body: Block = field(metadata=BLOCK)
    loc: Location


@dataclass(frozen=True, slots=True)
class Instruction(Statement):
    """A device instruction that a lowering pass chose; `name` is a key of the dialect's table.

    `outputs` are declared variables that it sets, or reads and sets; `addresses` are places in
    local or global arrays that it is given as pointers, of which it writes the first or none;
    `boxes` are global arrays of which it reads boxes. The front end never makes one.
    """

    name: str
    loc: Location
    outputs: tuple[Variable, ...] = field(default=(), metadata=UPDATES)
    inputs: tuple[Expression, ...] = field(default=(), metadata=READS)
    addresses: tuple[Address, ...] = field(default=(), metadata=UPDATES)
    boxes: tuple[tuple[Array, Box], ...] = field(default=(), metadata=READS)

    def written(self) -> tuple[Memory, ...]:
        """The first array that it is given an address of, unless it only asks for what is there."""
        return tuple(array for array, _ in self.addresses[: self.name != "prefetch"])
