"""Factorisations by blocks of columns: the next is made while the last one changes the rest."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from portable.backend import Device
from portable.linalg.products.repeats import at_once


def look_ahead(
    device: Device,
    columns: tuple[int, int],
    step: int,
    make: Callable[[int, int], object],
    changes: tuple[Callable[[int, int, int], object], Callable[[int, int, int], object]],
    least: int = 0,
) -> None:
    """Factors columns, so many a block.

    Parameters
    ----------
    device : Device
        Where.
    columns : (int, int)
        The first, and the one behind the last.
    step : int
        Columns of a block.
    make : callable
        Factors a block, told the first of its columns and the one behind its last.
    changes : two callables
        What a block does to the one after it, told also where that ends; and to all others, which
        happens while the next one is made.
    least : int
        Columns that these others are at least, where the host launches all of it each time: a
        second queue takes it longer than blocks that are soon made.
    """
    first, stop = columns
    near, far = changes
    make(first, min(first + step, stop))
    for start in range(first, stop, step):
        end = min(start + step, stop)
        following = min(end + step, stop)
        if end < stop:
            near(start, end, following)
            both = partial(make, end, following), partial(far, start, end, following)
            if device.capabilities.replays or stop - following >= least:
                at_once(device, *both)
            else:
                both[0]()
                both[1]()
        else:
            far(start, end, end)
