"""Elements where a mask is true: how the mask is cut into sections, and launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from portable.array.axis import Merge, cut, lanes_for
from portable.array.compaction_kernels import compact
from portable.array.recipe import Plans, Recipe
from portable.array.reduction_kernels import total
from portable.array.workgroup_kernels import reduce_together
from portable.backend import Device
from portable.dtypes import int32, int64

__all__ = ["compacted", "compacts"]


def compacts(device: Device) -> bool:
    """Whether long sections, one for each work-item, are what a device does best."""
    return device.capabilities.kind == "cpu"


def compacted(mask: Any, x: Any = None) -> Any:
    """The elements of `x` where a mask is true, or their positions if `x` is None.

    Both have one dimension. Waits for the device to learn how many there are.
    """
    device = mask.device
    if not mask.size:
        return device.empty((0,), int64 if x is None else x.dtype)
    counts = _counted(mask)
    found = int(device.to_numpy(counts).sum())
    out = device.empty((found,), int64 if x is None else x.dtype)
    if found:
        section = cut(mask, _lanes(mask)).section
        compact[counts.size, 1](mask, x, counts, out, SECTION=section)
    return out


def _lanes(mask: Any) -> int:
    return lanes_for(mask, int32, -1)


def _write_counts(mask: Any) -> Callable[..., Any]:
    """How many are true in each section."""
    recipe = Recipe(mask)
    lanes = _lanes(mask)
    how = cut(mask, lanes)
    counts = recipe.empty((how.sections,), int32 if mask.size < 2**31 else int64)
    recipe.launch(
        reduce_together,
        how.groups * how.items,
        how.items,
        mask,
        counts,
        MAP=None,
        LANES=lanes,
        WIDTH=how.width,
        TALL=how.tall,
        SECTION=how.section,
        **Merge(total, counts.dtype, 0).constants(),
    )
    return recipe.finish(counts)


_counted: Final = Plans(_write_counts)
