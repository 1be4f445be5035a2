"""Makes the exceptions that users read of the faults that the simulator found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from portable.lang.ir.types import Array
from portable.sim import errors
from portable.sim.launch import Group, Site, Touch
from portable.sim.races import Collision
from portable.sim.values import Value

NOBODY_COMES: Final = (
    "endless wait: no work-item of this workgroup and no copy under way completes the phase"
)


def _about(w: Group, site: Site, items: Any = ()) -> dict[str, Any]:
    """What every report holds."""
    return {
        "location": site.location,
        "kernel": w.kernel.name,
        "array": site.array.name if site.array is not None else None,
        "work_items": tuple(dict.fromkeys(w.work_item(int(i)) for i in items)),
    }


def _element(access: Touch, position: int) -> str:
    array = access.array
    return f"{array.name}[{', '.join(map(str, access.element(position)))}]"


def out_of_bounds(
    w: Group,
    site: Site,
    extents: tuple[int, ...],
    index: tuple[Value, ...],
    items: Value,
    bad: Value,
) -> errors.OutOfBoundsError:
    """Some elements, where `bad`, lie outside the site's array of these extents.

    Parameters
    ----------
    w : Group
    site : Site
        The statement.
    extents : tuple of int
    index : tuple of numpy.ndarray
        For each dimension.
    items : numpy.ndarray of int
        Who accesses each.
    bad : numpy.ndarray of bool
    """
    array = site.array
    assert array is not None
    where = np.flatnonzero(bad)
    first = tuple(int(i[where[0]]) for i in index)
    text = ", ".join(map(str, first))
    return errors.OutOfBoundsError(
        f"index out of bounds: {array.name}[{text}] of {array.space} array {array.name} "
        f"with shape {extents}",
        index=first,
        hint=_guard(w, array, extents, first),
        **_about(w, site, items[where]),
    )


def _guard(w: Group, array: Array, extents: tuple[int, ...], index: tuple[int, ...]) -> str:
    """What keeps an index inside, by the first dimension in which it is not."""
    places = enumerate(zip(index, extents, strict=False))
    dim, at = next(((d, i) for d, (i, n) in places if not 0 <= i < n), (0, 0))
    if at < 0:
        return "negative indices do not wrap; guard the access, for instance with `if i >= 0:`"
    text = f"guard the access, for instance with `if i < {array.name}.shape[{dim}]:`"
    padded = "; this kernel runs whole workgroups, since its work-items meet"
    return text + (padded if array.space == "global" and not w.kernel.exact else "")


def failed_check(w: Group, site: Site, message: str, items: Any) -> errors.FailedCheckError:
    """What the author held for certain does not hold for some work-items.

    Parameters
    ----------
    w : Group
    site : Site
        The check.
    message : str
        The author's.
    items : sequence of int
        For whom it failed.
    """
    text = f"check failed: {message}" if message else "check failed"
    return errors.FailedCheckError(text, **_about(w, site, items))


def uninitialised(w: Group, access: Touch, positions: Value) -> errors.UninitialisedReadError:
    """Some positions are read and nothing has written them.

    Parameters
    ----------
    w : Group
    access : Touch
    positions : numpy.ndarray of int
        Among the granules of the access.
    """
    first = int(positions[0])
    return errors.UninitialisedReadError(
        f"read of {_element(access, first)} ({access.array.space}), which nothing has written",
        index=access.element(first),
        **_about(w, access.site, [access.item(int(p)) for p in positions]),
    )


def race(w: Group, access: Touch, kind: str, collision: Collision) -> errors.RaceError:
    """An access is unordered with an earlier one.

    Parameters
    ----------
    w : Group
    access : Touch
    kind : str
        As of `portable.sim.shadow.AccessKind`.
    collision : Collision
        With what.
    """
    other = w.launch.other_access(collision.kind, collision.site, collision.thread)
    mine = w.work_item(access.item(collision.position))
    inside = mine.group_id == other.work_item.group_id
    by_itself = other.location.line == access.site.location.line
    between = _SCOPE if "atomic" in kind and "atomic" in collision.kind else _BETWEEN
    return errors.RaceError(
        f"race on {_element(access, collision.position)} ({access.array.space}): {kind}",
        index=access.element(collision.position),
        other=other,
        hint=between if not inside else _ITSELF if by_itself else _INSIDE,
        **_about(w, access.site, [access.item(collision.position)]),
    )


_ITSELF = (
    "work-items race on one statement: make it atomic, let one of them alone do it, or, in a loop, "
    "put a barrier between the rounds"
)
_INSIDE = "nothing orders the two: put a barrier between them, or make both atomic"
_BETWEEN = (
    "nothing orders the two workgroups: only a release in one that an acquire in the other "
    "sees, or the end of the kernel, does"
)

_SCOPE = (
    "an atomic operation of workgroup scope is one beside others of its workgroup only: leave out "
    'scope="workgroup", or have the workgroups use elements of their own'
)


def in_flight(
    w: Group, access: Touch, kind: str, position: int, beside: Touch, what: str
) -> errors.AsyncCopyError:
    """An access to memory that something under way has not done with.

    Parameters
    ----------
    w : Group
    access : Touch
    kind : str
        As of `portable.sim.shadow.AccessKind`.
    position : int
        Among the granules of the access.
    beside, what : Touch, str
        What is under way, and what it is called.
    """
    other = w.launch.other_access(what, beside.site.number, int(beside.threads(w)[0]))
    return errors.AsyncCopyError(
        f"{kind} of {_element(access, position)} ({access.array.space}), "
        f"which an {what} is still working on",
        index=access.element(position),
        other=other,
        hint="wait for it first (and put a barrier after the wait, for other work-items)",
        **_about(w, access.site, [access.item(position)]),
    )


def divergence(w: Group, site: Site, what: str, missing: Value) -> errors.DivergenceError:
    """Some work-items do not reach a collective operation with the others.

    Parameters
    ----------
    w : Group
    site : Site
        The operation.
    what : str
        What it is called.
    missing : numpy.ndarray of int
        Who is not here.
    """
    first = w.work_item(int(missing[0]))
    return errors.DivergenceError(
        f"{what} that not all of its work-items reach: {missing.size} missing, "
        f"such as {first}; reached",
        hint="move it out of the branch or loop that only some work-items take",
        **_about(w, site, w.active.ids[:1]),
    )


def incomplete_warpgroup(w: Group, site: Site, what: str, items: int) -> errors.DivergenceError:
    """The last work-items of a workgroup are too few for an instruction of warpgroups.

    Parameters
    ----------
    w : Group
        The workgroup.
    site : Site
        Where they are.
    what : str
        The instruction.
    items : int
        How many work-items are left beyond whole warpgroups.
    """
    return errors.DivergenceError(
        f"{what} by {items} work-items, which are no warpgroup, reached",
        hint="leave it to the work-items of whole warpgroups",
        **_about(w, site, w.active.ids[-1:]),
    )


def not_uniform(
    w: Group, site: Site, what: str, values: Value, expected: Value
) -> errors.NotUniformError:
    """Active work-items have other values than expected, which are those of one among them.

    Parameters
    ----------
    w : Group
    site : Site
        The statement.
    what : str
        What has to be the same for all.
    values, expected : numpy.ndarray
        Of the active work-items.
    """
    differs = values != expected
    rows = np.flatnonzero(differs.reshape(len(differs), -1).any(axis=1))
    return errors.NotUniformError(
        f"{what} must be the same for all work-items that get here together, "
        f"and is {expected[rows[0]]} for one but {values[rows[0]]}",
        **_about(w, site, w.active.ids[rows]),
    )


def broken_promise(w: Group, site: Site, what: str, items: Value) -> errors.BrokenPromiseError:
    """What the IR promises of an operand does not hold for some work-items.

    Parameters
    ----------
    w : Group
    site : Site
        The statement.
    what : str
        What was promised.
    items : numpy.ndarray of int
        For whom it does not hold.
    """
    return errors.BrokenPromiseError(f"broken promise: {what}", **_about(w, site, items))


def endless_wait(w: Group, site: Site, reason: str, hint: str = "") -> errors.EndlessWaitError:
    """A workgroup waits for what will not come.

    Parameters
    ----------
    w : Group
    site : Site
        Where it waits.
    reason, hint : str
        Why it is endless, and what to do.
    """
    return errors.EndlessWaitError(reason, hint=hint, **_about(w, site, w.active.ids))


def not_contiguous(w: Group, access: Touch) -> errors.AsyncCopyError:
    """A bulk copy of elements that are no neighbours in memory."""
    return errors.AsyncCopyError(
        f"bulk copy at {_element(access, 0)} of elements that are not contiguous in memory",
        index=access.element(0),
        **_about(w, access.site, access.items[:1]),
    )


def no_row(w: Group, access: Touch, position: int) -> errors.AsyncCopyError:
    """An instruction moves 16 bytes that are no neighbours or not aligned.

    Parameters
    ----------
    w : Group
    access : Touch
    position : int
        Among the granules of the access.
    """
    return errors.AsyncCopyError(
        f"{_element(access, position)} does not begin 16 aligned bytes of a row",
        index=access.element(position),
        **_about(w, access.site, [access.item(position)]),
    )


def unfenced(
    w: Group, access: Touch, kind: str, position: int, thread: int, site: int
) -> errors.AsyncCopyError:
    """The asynchronous proxy does not see the latest write of a work-item.

    Parameters
    ----------
    w : Group
    access : Touch
    kind : str
        As of `portable.sim.shadow.AccessKind`.
    position : int
        Among the granules of the access.
    thread, site : int
        Who wrote, and the number of the statement.
    """
    return errors.AsyncCopyError(
        f"{kind} of {_element(access, position)} ({access.array.space}) through the "
        "asynchronous proxy, which does not see what was written there",
        index=access.element(position),
        other=w.launch.other_access("write", site, thread),
        hint="a proxy fence must stand between the two",
        **_about(w, access.site, [access.item(position)]),
    )


def early_phase(w: Group, site: Site, announced: int, thread: int) -> errors.AsyncCopyError:
    """A phase may be over before all bytes of its copies are announced.

    Parameters
    ----------
    w : Group
    site : Site
        The last arrival.
    announced, thread : int
        The number of the statement that announced bytes, and who did.
    """
    return errors.AsyncCopyError(
        "nothing orders the last arrival at an mbarrier after the announcement of bytes: the phase "
        "may be over too early",
        other=w.launch.other_access("announcement", announced, thread),
        hint="put a barrier between the two",
        **_about(w, site, w.active.ids[:1]),
    )


def never_waited(w: Group, access: Touch) -> errors.AsyncCopyError:
    """A workgroup has ended with a copy to global memory under way."""
    return errors.AsyncCopyError(
        f"asynchronous copy to {access.array.name} that nothing waits for",
        hint="commit the copy and wait for it before the kernel ends",
        **_about(w, access.site, access.items[:1]),
    )


def _at_once(text: str, hint: str = "") -> Callable[..., errors.AsyncCopyError]:
    """The report of what work-items did together, by default the active ones.

    `text` names what else it is given: ``report(w, site, items=None, **given)``.
    """

    def report(w: Group, site: Site, items: Any = None, **given: int) -> errors.AsyncCopyError:
        involved = w.active.ids if items is None else items
        return errors.AsyncCopyError(text.format(**given), hint=hint, **_about(w, site, involved))

    return report


part_of_element: Final = _at_once("bulk copy of {size} bytes, which are no whole elements")
misaligned: Final = _at_once(
    "asynchronous copy of {size} bytes at an address that is no multiple of that"
)
wrong_phase: Final = _at_once(
    "bulk wait for phase {phase} where phase {due} is due",
    "the phase is the number of earlier waits on the slot modulo 2",
)
product_under_way: Final = _at_once(
    "a sum whose multiplications nothing has waited for", "wait for all of them first"
)
registers_unfenced: Final = _at_once(
    "a multiplication whose sum may have been written to since the last fence for registers"
)
too_many_arrivals: Final = _at_once(
    "more than the {count} arrivals that the mbarrier was made for",
    "whoever arrives must have waited for the phase before",
)
