"""Elements where a mask is true: how the mask is cut into sections, and launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from portable.array.axis import Merge, cut, lanes_for
from portable.array.bool_words import counted_in_words
from portable.array.compaction_kernels import compact, compact_together
from portable.array.recipe import Plans, Recipe
from portable.array.reduction_kernels import total
from portable.array.scanning import scanned
from portable.array.workgroup_kernels import reduce_together
from portable.dtypes import int32, int64

__all__ = ["compacted"]


def compacted(mask: Any, x: Any = None) -> Any:
    """The elements of `x` where a mask is true, or their positions if `x` is None.

    Both have one dimension. Waits for the device to learn how many there are.
    """
    device = mask.device
    if not mask.size:
        return device.empty((0,), int64 if x is None else x.dtype)
    cpu = device.capabilities.kind == "cpu"
    counts = _counted(mask)
    found = int(device.to_numpy(counts).sum() if cpu else device.to_numpy(counts[-1:])[0])
    out = device.empty((found,), int64 if x is None else x.dtype)
    if not found:
        return out
    lanes = _lanes(mask)
    how = cut(mask, lanes)
    if cpu:
        compact[how.sections, 1](mask, x, counts, out, SECTION=how.section)
        return out
    constants = {"LANES": lanes, "WIDTH": how.width, "SECTION": how.section}
    compact_together[how.sections * how.width, how.width](mask, x, counts, out, **constants)
    return out


def _lanes(mask: Any) -> int:
    return lanes_for(mask, int32, -1)


def _write_counts(mask: Any) -> Callable[..., Any]:
    """How many are true in each section of a CPU, on other devices up to the end of each."""
    recipe = Recipe(mask)
    how = cut(mask, _lanes(mask))
    counts = recipe.empty((how.sections,), int32 if mask.size < 2**31 else int64)
    merge = Merge(total, counts.dtype, 0)
    words, counting = counted_in_words(mask, (0,), merge)
    recipe.launch(
        reduce_together,
        how.groups * how.items,
        how.items,
        words,
        counts,
        MAP=counting.first,
        LANES=lanes_for(words, merge.kind, -1),
        WIDTH=how.width,
        TALL=how.tall,
        SECTION=how.section // words.dtype.itemsize,
        **merge.constants(),
    )
    if mask.device.capabilities.kind == "cpu" or how.sections == 1:
        return recipe.finish(counts)
    ends = recipe.empty(counts.shape, counts.dtype)
    scanned(recipe, counts, ends, merge, 0)
    return recipe.finish(ends)


_counted: Final = Plans(_write_counts)
