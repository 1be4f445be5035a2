"""Arrays of recipes in other dtypes and shapes."""

from __future__ import annotations

from typing import Any

from portable.dtypes import DType
from portable.primitives.base.geometry import reshaped_strides
from portable.primitives.base.recipe import Recipe
from portable.primitives.base.storage import contiguous_strides
from portable.primitives.maps.engine import recorded
from portable.primitives.maps.operation import conversion_to


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
    return whole.viewed(shape, contiguous_strides(shape, x.dtype.itemsize))
