"""Several copies as steps of a recipe: in one launch where they are small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from portable import lang as kl
from portable.dtypes import DType
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.base.operands import broadcast_strides, collapsed, reshaped_strides
from portable.primitives.base.recipe import Recipe
from portable.primitives.maps.elementwise import applied, recorded
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.maps.work import conversion_of, conversion_to

# Arrays of recipes in other dtypes and shapes.


def converted(recipe: Recipe, x: Any, kind: DType) -> Any:
    """An array of a recipe in another dtype: itself, or a new one of the recipe.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        An array of it.
    kind : DType
        To what.
    """
    return x if x.dtype is kind else recorded(recipe, conversion_to(kind), x)


def reshaped(recipe: Recipe, x: Any, shape: tuple[int, ...]) -> Any:
    """An array of a recipe in another shape of as many elements: a view, or of a copy.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        An array of it.
    shape : tuple of int
        The new extents, of as many elements.
    """
    strides = None if x.is_contiguous else reshaped_strides(x.shape, x.strides, shape)
    if strides is not None:
        return x.viewed(shape, strides)
    whole = x if x.is_contiguous else recorded(recipe, conversion_to(x.dtype), x)
    return whole.shaped(shape)


# -- copying ---------------------------------------------------------------------------------------


@function
def copied(x: kl.Array, out: kl.Array, kind: Any, CHUNK: int) -> None:
    """``out = x``, `CHUNK` elements by each work-item."""
    start = kl.global_id(0) * CHUNK
    for n in range(start, kl.minimum(start + CHUNK, product_of(out.shape))):
        at = unravelled(n, out.shape)
        out[*at] = x[*at] if kind is None else kl.cast(x[*at], kind)


@kernel
def copy_several(
    sources: tuple[kl.Array, ...], targets: tuple[kl.Array, ...], *, KINDS: Any, CHUNK: int
) -> None:
    """``targets[n] = sources[n]``, in the types of `KINDS`.

    Each is the work of the workgroups of one place along dimension 1 of the ndrange.
    """
    which = kl.global_id(1)
    for i in kl.static_range(len(KINDS)):
        if which == i:
            copied(sources[i], targets[i], KINDS[i], CHUNK)


_FEW: Final = 1 << 14
"""Elements of a copy that is no launch of its own."""
_MOST: Final = 4
_GROUP: Final = 256


def copy_in(recipe: Recipe, copies: Sequence[tuple[Any, Any]]) -> None:
    """Copies arrays of a recipe, converted, each to one that it broadcasts to.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    copies : sequence of (Array, Array)
        What to copy, and where to; no two write to the same element, and none to what is read.
    """
    todo = [(x, out) for x, out in copies if out.size]
    if len(todo) == 1 or any(out.size > _FEW for _, out in todo):
        for x, out in todo:
            applied(recipe, conversion_to(out.dtype), x, out=out)
        return
    for first in range(0, len(todo), _MOST):
        _copy_several(recipe, [_fewest_dimensions(*one) for one in todo[first : first + _MOST]])


def _fewest_dimensions(x: Any, out: Any) -> tuple[Any, Any]:
    """Views of the shape of `out`, collapsed."""
    strides = broadcast_strides(x.shape, x.strides, out.shape)
    shape, steps = collapsed(out.shape, [strides, out.strides])
    return x.viewed(shape, steps[0]), out.viewed(shape, steps[1])


def _copy_several(recipe: Recipe, copies: Sequence[tuple[Any, Any]]) -> None:
    sources, targets = zip(*copies, strict=True)
    kinds = tuple(conversion_of(x.dtype, out.dtype) for x, out in copies)
    cpu = targets[0].device.capabilities.single_work_items
    chunk, group = (_FEW, 1) if cpu else (1, _GROUP)
    widest = max(out.size for out in targets)
    ndrange = -(-widest // chunk), len(copies)
    recipe.launch(copy_several, ndrange, (group, 1), sources, targets, KINDS=kinds, CHUNK=chunk)
