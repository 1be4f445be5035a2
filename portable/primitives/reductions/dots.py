"""Sums of products of two arrays along the last axis, each element read once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.dtypes import DType
from portable.primitives.base.operands import collapsed
from portable.primitives.base.recipe import Recipe
from portable.primitives.reductions.axis import cut, lanes_for, launch_by_workgroup, reduced
from portable.primitives.reductions.merging import Line, Merge


@dataclass(frozen=True)
class Pair:
    """Two arrays of one shape, as kernels read them.

    Attributes
    ----------
    left, right : array
        The factors.
    """

    left: Any
    right: Any

    @property
    def shape(self) -> Any:
        """That of both."""
        return self.left.shape

    @property
    def ndim(self) -> Any:
        """Their dimensions."""
        return self.left.ndim


@dataclass(frozen=True)
class Dot(Merge):
    """What a sum of products does; `Merge` says how it goes along a row."""

    def given(self, arrays: tuple[kl.Array, ...]) -> Any:
        """Both arrays."""
        return Pair(arrays[0], arrays[1])

    def one(self, line: Line, r: kl.Scalar) -> Any:
        """The product at `r` of a row."""
        x, outer = line
        return kl.cast(x.left[*outer, r], self.kind) * kl.cast(x.right[*outer, r], self.kind)

    def read(self, line: Line, r: kl.Scalar, axis: int = -1, ahead: int = 0) -> Any:
        """The products in a work-item's lanes."""
        x, outer = line
        left = kl.vload(x.left, *outer, r, lanes=self.lanes, axis=axis, ahead=ahead)
        right = kl.vload(x.right, *outer, r, lanes=self.lanes, axis=axis, ahead=ahead)
        return kl.cast(left, self.kind) * kl.cast(right, self.kind)


def dotted(recipe: Recipe, left: Any, right: Any, kind: DType, result: DType) -> Any:
    """The sums of products along the last axis, contiguous, in one dimension.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    left, right : Storage
        Arrays of it, of one shape, not empty.
    kind : DType
        To multiply and to sum in.
    result : DType
        Of the sums in memory.
    """
    extents, steps = collapsed(left.shape[:-1], [left.strides[:-1], right.strides[:-1]])
    arrays = tuple(
        x.viewed((*extents, x.shape[-1]), (*step, x.strides[-1]))
        for x, step in zip((left, right), steps, strict=True)
    )
    lanes = min(lanes_for(x, kind, -1) for x in arrays)
    dot = Dot(kl.add, kind, 0, lanes=lanes)
    how = cut(arrays[0], lanes, rounds=dot.rounds)
    parts = recipe.empty((*extents, how.sections), result if how.sections == 1 else kind)
    launch_by_workgroup(recipe, arrays, (parts,), dot, how)
    if how.sections == 1:
        return parts
    return reduced(recipe, parts, (parts.ndim - 1,), Merge(kl.add, kind, 0), result)
