"""Running totals along an axis: how they are cut into sections, and launched."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.array.axis import Merge, cut, lanes_for
from portable.array.recipe import Recipe
from portable.array.reduction_kernels import reduce_columns, scan_columns
from portable.array.workgroup_kernels import reduce_together, scan_together

__all__ = ["scanned"]

_STRIPS: Final = 4
_COLUMN_GROUP: Final = 64
_CPU_STRIP: Final = 32


def scanned(recipe: Recipe, x: Any, out: Any, merge: Merge, shift: int) -> None:
    """Running totals along the last axis into `out`, from the neutral element on if `shift`."""
    if abs(x.strides[-1]) != x.dtype.itemsize and x.ndim > 1 and x.shape[-2] > 1:
        _scan_columns(recipe, x, out, merge, shift)
        return
    lanes = lanes_for(x, merge.kind, -1)
    if lanes_for(out, merge.kind, -1) < lanes:
        lanes = 1
    _scan_together(recipe, x, out, merge, shift, lanes)


def _scan_together(recipe: Recipe, x: Any, out: Any, merge: Merge, shift: int, lanes: int) -> None:
    """Sums the sections, scans the sums, scans the sections."""
    how = cut(x, lanes)
    starts = None
    if how.sections > 1:
        totals = recipe.empty((*x.shape[:-1], how.sections), merge.kind)
        recipe.launch(
            reduce_together,
            how.groups * how.items,
            how.items,
            x,
            totals,
            MAP=None,
            LANES=lanes,
            WIDTH=how.width,
            TALL=how.tall,
            SECTION=how.section,
            **merge.constants(),
        )
        starts = recipe.empty(totals.shape, merge.kind)
        scanned(recipe, totals, starts, merge, 0)
    recipe.launch(
        scan_together,
        prod(x.shape[:-1]) * how.sections * how.width,
        how.width,
        x,
        starts,
        out,
        LANES=lanes,
        ITEMS=how.width,
        STRIPS=_STRIPS,
        SECTION=how.section,
        SHIFT=shift,
        **merge.constants(),
    )


def _scan_columns(recipe: Recipe, x: Any, out: Any, merge: Merge, shift: int) -> None:
    capabilities = x.device.capabilities
    cpu = capabilities.kind == "cpu"
    rows, length = prod(x.shape[:-1]), x.shape[-1]
    lanes = min(lanes_for(x, merge.kind, -2), lanes_for(out, merge.kind, -2)) if cpu else 1
    strip = min(_CPU_STRIP, -(-rows // lanes)) if cpu else 1
    strips = -(-rows // (lanes * strip))
    group = 1 if cpu else _COLUMN_GROUP
    wanted = -(-capabilities.compute_units * (1 if cpu else 512) // strips)
    section = max(64, 1 << (-(-length // wanted) - 1).bit_length())
    sections = -(-length // section)
    starts = None
    constants = {"LANES": lanes, "STRIP": strip, "SECTION": section, **merge.constants()}
    if sections > 1:
        totals = recipe.empty((*x.shape[:-1], sections), merge.kind)
        recipe.launch(reduce_columns, strips * sections, group, x, totals, MAP=None, **constants)
        starts = recipe.empty(totals.shape, merge.kind)
        scanned(recipe, totals, starts, merge, 0)
        constants["LANES"], constants["STRIP"] = 1, strip * lanes
    recipe.launch(scan_columns, strips * sections, group, x, starts, out, SHIFT=shift, **constants)
