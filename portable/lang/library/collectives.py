"""Collectives of a workgroup, written in the language itself.

All combine in the order of the work-items' numbers, `local_linear_id`, so that an operation has to
be associative but need not commute. Where the device has sub-groups, each combines its own values
by shuffles (as Hillis and Steele 1986 do) and leaves the result in local memory, and every
sub-group combines these results for itself. Elsewhere the values themselves go to local memory,
some work-items combine a chunk of consecutive ones each, and the chunks are combined in turn: by
every work-item for a reduction, by one for a scan.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

from portable.lang import words as kl
from portable.lang.function import function

# The body of one step of a pipeline: a slot of the ring is filled, another is multiplied.


@function
def read_slot(tiles: Any, read: Any, step: Any, AHEAD: int, STAGES: int) -> None:
    """Asks for the tiles of a later step."""
    ahead = step + AHEAD
    slot = ahead % STAGES
    read(tiles[0][slot], tiles[1][slot], ahead)


@function
def multiply_slot(
    acc: Any, tiles: Any, valid: Any, step: Any, STAGES: int, TRANSPOSED: bool
) -> None:
    """Multiplies a step's tiles."""
    now = step % STAGES
    left = tiles[0][now].T if TRANSPOSED else tiles[0][now]
    kl.mma(acc, left, tiles[1][now], valid=None if valid is None else valid(step))


@function
def follow(after: Any, step: Any) -> None:
    """Does what is to be done with a step's sums."""
    after(step)


# The last workgroup to finish its part goes on with what all have written, so that none waits.
#
# A helper function of the language itself, for kernels of devices that order memory between
# workgroups (`portable.backend.Capabilities.memory_orders`).


@function
def arrived_last(counts: Any, slot: Any, siblings: Any) -> Any:
    """Whether this workgroup is the last of so many to call this with the same `slot`.

    The last one can read what the others wrote before they called it, and leaves the count at zero
    for the next launch.

    Parameters
    ----------
    counts : array of int
        How many have called, by place; zeros at first.
    slot : int
    siblings : int
        The workgroups that share the place.
    """
    kl.barrier()
    before = 0
    if kl.local_linear_id() == 0:
        before = kl.atomic_add(counts, slot, 1, order="acq_rel")
        if before == siblings - 1:
            kl.atomic_store(counts, slot, 0)
    last = kl.workgroup_uniform(before) == siblings - 1
    kl.barrier()
    return last


# -- collectives -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workgroup:
    """Who takes part in a collective.

    Attributes
    ----------
    size : int
        Work-items in all.
    span : int
        How many neighbours are combined, more than one; all, or a part of them that divides them.
    width : int
        Work-items of a sub-group; 1 where the device has none.
    used : bool
        Whether an earlier collective may still be reading the scratch.
    """

    size: int
    span: int
    width: int
    used: bool

    @property
    def whole(self) -> bool:
        """Whether all work-items are combined."""
        return self.span == self.size

    @property
    def shuffles(self) -> bool:
        """Whether sub-groups combine by shuffles: none of them has work-items of two spans."""
        fit = self.whole or self.width % self.span == 0 or self.span % self.width == 0
        return self.width > 1 and fit

    @property
    def groups(self) -> int:
        """How many sub-groups a span has."""
        return -(-self.span // self.width)

    @property
    def narrowest(self) -> int:
        """Work-items of the last of them, which may have fewer than others."""
        return self.span % self.width or self.width

    @property
    def room(self) -> int:
        """Elements of local memory that are needed, the scratch of all collectives of a kernel."""
        if not self.shuffles:
            return self.size
        return -(-self.size // self.width) if self.groups > 1 else 0

    @property
    def steps(self) -> tuple[int, ...]:
        """How far shuffles reach within a sub-group."""
        return doublings(min(self.span, self.width))

    @property
    def each(self) -> int:
        """How many sub-groups' results a work-item combines before shuffles combine the rest."""
        return -(-self.groups // self.narrowest)

    @property
    def parts(self) -> int:
        """How many work-items then have something to combine."""
        return -(-self.groups // self.each)

    @property
    def part_steps(self) -> tuple[int, ...]:
        """How far shuffles reach among them."""
        return doublings(self.parts)

    @property
    def chunk(self) -> int:
        """Consecutive values that one work-item combines: about as many as there are chunks."""
        return isqrt(self.span - 1) + 1


def doublings(count: int) -> tuple[int, ...]:
    """The powers of two below a number."""
    return tuple(1 << k for k in range((count - 1).bit_length()))


@function
def _begin(group: Any) -> Any:
    """Waits until all have read what an earlier collective left in local memory."""
    if group.used:
        kl.barrier()


@function
def _active(group: Any) -> Any:
    """How many work-items this sub-group has; the workgroup's last may have fewer."""
    if group.size % group.width == 0:
        return group.width
    if group.size < group.width:
        return group.size
    return kl.minimum(group.width, group.size - kl.sub_group_id() * group.width)


# -- reductions -----------------------------------------------------------------------------


@function
def reduced(op: Any, x: Any, group: Any, scratch: Any) -> Any:
    """`x` of all work-items of a span combined, for all of them."""
    if group.shuffles:
        total = _reduced_by_sub_groups(op, x, group, scratch)
    else:
        total = _reduced_by_chunks(op, x, group, scratch)
    return kl.assume_uniform(total) if group.whole else total


@function
def _reduced_within(op: Any, x: Any, count: Any, steps: Any, whole: Any) -> Any:
    """`x` of the sub-group's first `count` work-items, in order; right in the first of them.

    After each step a work-item holds twice as many as before, its own and the next ones. `whole`
    says that `count` is the power of two up to which the steps go, so that the first work-item
    needs nothing from beyond.
    """
    lane = kl.sub_group_local_id()
    for step in steps:
        other = kl.sub_group_shuffle_down(x, step)
        if whole or lane + step < count:
            x = op(x, other)
    return x


@function
def _reduced_by_sub_groups(op: Any, x: Any, group: Any, scratch: Any) -> Any:
    steps, groups, lane = group.steps, group.groups, kl.sub_group_local_id()
    total = _reduced_within(op, x, _active(group), steps, group.span % (1 << len(steps)) == 0)
    if groups == 1 and not group.whole:
        return kl.sub_group_shuffle(total, lane - lane % group.span)
    if groups > 1:
        _begin(group)
        if lane == 0:
            scratch[kl.sub_group_id()] = total
        kl.barrier()
        base = 0 if group.whole else kl.sub_group_id() // groups * groups
        first = lane * group.each
        total = scratch[base + kl.minimum(first, groups - 1)]
        for k in kl.static_range(1, group.each):
            if first + k < groups:
                total = op(total, scratch[base + first + k])
        parts, steps = group.parts, group.part_steps
        total = _reduced_within(op, total, parts, steps, parts == 1 << len(steps))
    return kl.sub_group_broadcast(total, 0)


@function
def _in_chunks(op: Any, x: Any, group: Any, scratch: Any, SCAN: bool) -> Any:
    """Leaves the total of each chunk where it begins, or of a scan totals where elements are.

    Returns this work-item's place, and where the numbers begin.
    """
    item, span, chunk = kl.local_linear_id(), group.span, group.chunk
    position = item if group.whole else item % span
    base = 0 if group.whole else item - position
    _begin(group)
    scratch[item] = x
    kl.barrier()
    first = position * chunk
    if first < span:
        total = scratch[base + first]
        for k in range(first + 1, kl.minimum(first + chunk, span)):
            total = op(total, scratch[base + k])
            if SCAN:
                scratch[base + k] = total
        if not SCAN:
            scratch[base + first] = total
    kl.barrier()
    return position, base


@function
def _reduced_by_chunks(op: Any, x: Any, group: Any, scratch: Any) -> Any:
    _, base = _in_chunks(op, x, group, scratch, False)
    total = scratch[base]
    for k in range(group.chunk, group.span, group.chunk):
        total = op(total, scratch[base + k])
    return total


# -- scans ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scanned:
    """A scan within a part of the workgroup, a sub-group or a chunk, and what goes before it.

    Attributes
    ----------
    number, place : int
        Which part the work-item is in, and where in it.
    upto, previous
        What the part has up to this work-item, and up to the one before (if `place` > 0).
    before
        What the parts before have (if `number` > 0).
    total
        What all have together.
    """

    number: Any
    place: Any
    upto: Any
    previous: Any
    before: Any
    total: Any


@function
def scanned(
    op: Any, x: Any, group: Any, scratch: Any, inclusive: Any, initial: Any, wants_total: Any
) -> Any:
    """`x` of the span's work-items up to this one, or before it; after `initial` if it is given."""
    if group.shuffles:
        result_here = _scanned_by_sub_groups(op, x, group, scratch, not inclusive, wants_total)
    else:
        result_here = _scanned_by_chunks(op, x, group, scratch)
    if initial is not None:
        before = op(initial, result_here.before) if result_here.number > 0 else initial
        if inclusive:
            result = op(before, result_here.upto)
        else:
            result = op(before, result_here.previous) if result_here.place > 0 else before
    else:
        result = (
            op(result_here.before, result_here.upto) if result_here.number > 0 else result_here.upto
        )
    if not wants_total:
        return result
    total = result_here.total if initial is None else op(initial, result_here.total)
    return result, kl.assume_uniform(total) if group.whole else total


@function
def _scanned_within(op: Any, x: Any, steps: Any, position: Any) -> Any:
    """`x` of the work-items up to this one, in order, from the one whose place is 0."""
    for step in steps:
        other = kl.sub_group_shuffle_up(x, step)
        if position >= step:
            x = op(other, x)
    return x


@function
def _scanned_by_sub_groups(
    op: Any, x: Any, group: Any, scratch: Any, wants_previous: Any, wants_total: Any
) -> Any:
    lane, groups = kl.sub_group_local_id(), group.groups
    position = lane if group.whole or groups > 1 else lane % group.span
    upto = _scanned_within(op, x, group.steps, position)
    previous = kl.sub_group_shuffle_up(upto, 1) if wants_previous else None
    if groups == 1:
        last = group.size - 1 if group.whole else lane - position + group.span - 1
        total = kl.sub_group_shuffle(upto, last) if wants_total else None
        return _Scanned(0, position, upto, previous, None, total)
    number = kl.sub_group_id() if group.whole else kl.sub_group_id() % groups
    base = 0 if group.whole else kl.sub_group_id() - number
    _begin(group)
    if position == _active(group) - 1:
        scratch[kl.sub_group_id()] = upto
    kl.barrier()
    if groups <= group.narrowest:
        held = scratch[base + kl.minimum(position, groups - 1)]
        totals = _scanned_within(op, held, group.part_steps, position)
        before = kl.sub_group_shuffle(totals, kl.maximum(number - 1, 0))
        total = kl.sub_group_broadcast(totals, groups - 1) if wants_total else None
    else:
        before = _combined(op, scratch, base, base + number, 1)
        total = _combined(op, scratch, base, base + groups, 1) if wants_total else None
    return _Scanned(number, position, upto, previous, before, total)


@function
def _combined(op: Any, scratch: Any, first: Any, end: Any, step: Any) -> Any:
    """Every `step`-th element from `first` to before `end` combined; `first` itself in any case."""
    total = scratch[first]
    for k in range(first + step, end, step):
        total = op(total, scratch[k])
    return total


@function
def _scanned_by_chunks(op: Any, x: Any, group: Any, scratch: Any) -> Any:
    item, span, chunk = kl.local_linear_id(), group.span, group.chunk
    position, base = _in_chunks(op, x, group, scratch, True)
    if position == 0:
        before = scratch[base + chunk - 1]
        for k in range(2 * chunk - 1, span, chunk):
            before = op(before, scratch[base + k])
            scratch[base + k] = before
    kl.barrier()
    number, last = position // chunk, position % chunk == chunk - 1
    if number > 0 and not last:
        scratch[item] = op(scratch[base + number * chunk - 1], scratch[item])
    kl.barrier()
    previous = scratch[kl.maximum(item - 1, 0)]
    return _Scanned(0, position, scratch[item], previous, None, scratch[base + span - 1])


# -- votes and broadcasts ---------------------------------------------------------------------


@function
def voted(op: Any, vote: Any, x: Any, group: Any, scratch: Any) -> Any:
    """What all work-items' `x` come to by `op`, as those of a sub-group do by `vote`."""
    if group.width == 1:
        return kl.assume_uniform(_reduced_by_chunks(op, x, group, scratch))
    result = vote(x)
    if group.groups > 1:
        result = vote(_shared(op, result, group, scratch))
    return kl.assume_uniform(result)


@function
def _shared(op: Any, x: Any, group: Any, scratch: Any) -> Any:
    """The results of all sub-groups, some for each work-item of a sub-group, combined by it.

    A result may go to several work-items, which votes do not mind.
    """
    lane = kl.sub_group_local_id()
    _begin(group)
    if lane == 0:
        scratch[kl.sub_group_id()] = x
    kl.barrier()
    total = scratch[kl.minimum(lane, group.groups - 1)]
    for k in kl.static_range(1, group.each):
        total = op(total, scratch[kl.minimum(lane + k * group.narrowest, group.groups - 1)])
    return total


@function
def broadcast(x: Any, index: Any, group: Any, scratch: Any) -> Any:
    """`x` of the work-item of a number, for all."""
    if group.groups == 1:
        return kl.assume_uniform(kl.sub_group_broadcast(x, index))
    _begin(group)
    if kl.local_linear_id() == kl.assume_uniform(index):
        scratch[0] = x
    kl.barrier()
    return kl.assume_uniform(scratch[0])


# -- sub-groups by local memory --------------------------------------------------------------------
#
# For kernels whose shuffles cannot be trusted: what `sub_group_shuffle` and its like do, by a place
# in local memory for each work-item of the workgroup.


@function
def moved(op: str, x: Any, index: Any, width: Any, group: Any, scratch: Any) -> Any:
    """`x` of the work-item of the sub-group that a shuffle reads; own `x` where there is none."""
    item = kl.local_linear_id()
    _begin(group)
    scratch[item] = x
    kl.barrier()
    first, lane = item - item % width, index
    if op == "shuffle_xor":
        lane = item % width ^ index
    elif op == "shuffle_up":
        lane = item % width - index
    elif op == "shuffle_down":
        lane = item % width + index
    inside = (lane >= 0) & (lane < width) & (first + lane < group.size)
    return scratch[kl.where(inside, first + lane, item)]


@function
def merged(op: str, x: Any, width: Any, group: Any, scratch: Any) -> Any:
    """`x` of the sub-group combined as a reduction, a scan or a vote does it."""
    item = kl.local_linear_id()
    _begin(group)
    scratch[item] = x
    kl.barrier()
    first = item - item % width
    stop = item + 1 if op == "scan_add" else kl.minimum(first + width, group.size)
    total = scratch[first]
    for k in range(first + 1, stop):
        total = _both(op, total, scratch[k])
    return total


@function
def _both(op: str, x: Any, y: Any) -> Any:
    if op == "reduce_min":
        return kl.minimum(x, y)
    if op == "reduce_max":
        return kl.maximum(x, y)
    if op in ("all", "reduce_and"):
        return x & y
    if op in ("any", "reduce_or"):
        return x | y
    return x ^ y if op == "reduce_xor" else x + y
