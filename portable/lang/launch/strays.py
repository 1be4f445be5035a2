"""Remarks on launches whose work-items leave an array, as far as extents and the kernel show it."""

from __future__ import annotations

from collections.abc import Sequence

from portable.backend import ArrayView, Device
from portable.lang.arguments.arguments import Specialisation
from portable.lang.launch.checking import checking
from portable.lang.launch.definition import Definition
from portable.lang.launch.geometry import Three
from portable.lang.launch.stray_accesses import Stray
from portable.system.console import remark


def remark_strays(
    kernel: Definition,
    wanted: Specialisation,
    device: Device,
    views: Sequence[ArrayView | None],
    asked: Three,
) -> None:
    """Tells where work-items leave an array: those asked for, or those that only pad an ndrange.

    Devices that look at every index report the first kind themselves, as errors. Accesses under
    a condition are not told of then, since arguments may well rule them out.

    Parameters
    ----------
    kernel, wanted, device
        What is launched.
    views : sequence of ArrayView or None
        Its arguments.
    asked : (int, int, int)
        The ndrange in work-items.
    """
    traits = kernel.traits(wanted, device)
    reported = device.interprets or checking()
    for position, stray in traits.strays:
        view = views[position]
        assert view is not None
        extent, size = view.shape[stray.axis], asked[stray.dim]
        items = wanted.workgroup[stray.dim]
        if size > extent:
            if stray.always and not reported:
                remark(_beyond(kernel.__name__, stray, extent, size), stray.loc)
        elif not traits.exact and extent < -(-size // items) * items:
            text = _padding(kernel.__name__, stray, extent, items, traits.meeting_line)
            remark(text, stray.loc)


def _beyond(name: str, stray: Stray, extent: int, size: int) -> str:
    """How many work-items are launched over how much, and what to do."""
    array, dim = stray.array.name, stray.dim
    fitting = f"launch {extent}" if extent else "skip the launch"
    return (
        f"kernel {name!r} is launched over {size} work-items along dimension {dim}, and here they "
        f"leave {array}, whose extent is {extent}, which may crash this process later; "
        f"{fitting}, or write if kl.global_id({dim}) < {array}.shape[{stray.axis}]: around it"
    )


def _padding(name: str, stray: Stray, extent: int, items: int, line: int) -> str:
    """Why work-items beyond an ndrange run, where they go, and what to do."""
    array, dim = stray.array.name, stray.dim
    return (
        f"kernel {name!r} is launched in whole workgroups of {items} along dimension {dim}, since "
        f"its work-items meet or share local memory (line {line}): those beyond the ndrange run "
        f"too, and here they leave {array}, whose extent is {extent}; write "
        f"if kl.global_id({dim}) < {array}.shape[{stray.axis}]: around it"
    )
