"""How lines are shared among the workers and vector lanes of a processor."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from portable.array.fourier.access import ALONG, BESIDE, HALVED, MIRRORED, WITHIN
from portable.array.fourier.plan import (
    TABLES,
    Pass,
    PassOptions,
    balanced,
    found_table,
    in_parts,
    radices,
    rotations_between,
    stage_rotations,
)
from portable.array.fourier.vector_kernels import transform_in_vectors
from portable.backend import Capabilities
from portable.dtypes import DType
from portable.primitives.base.recipe import Recipe

_LARGEST_RADIX: Final = 8
_MOST_LANES: Final = 16
_WORKERS_PER_UNIT: Final = 4
_CACHE: Final = 1 << 20
"""Bytes that a worker's memory may take."""
_LONGEST_ALONE: Final = 2048
"""Elements of a line that is transformed without vectors rather than in several passes."""


def parts_in_vectors(x: Any, out: Any, n: int, kind: DType) -> tuple[int, ...]:
    """The lengths of the passes: one if a worker's memory holds a line in each lane.

    Parameters
    ----------
    x : Storage
        Lines along its last axis.
    out : Storage
        Where they go.
    n : int
        Elements of a line.
    kind : DType
        Of the complex numbers, or of their parts.
    """
    lanes = lanes_of(x.device.capabilities, kind)
    most = _CACHE // (2 * lanes * kind.itemsize)
    if n <= (most if prod(x.shape[:-1]) >= lanes else _LONGEST_ALONE):
        return (n,)
    return balanced(n, most)


def lanes_of(capabilities: Capabilities, kind: DType) -> int:
    """How many lines a vector is of."""
    return min(_MOST_LANES, max(2, capabilities.vector_bytes // kind.real.itemsize))


def launch_in_vectors(recipe: Recipe, x: Any, out: Any, step: Pass, kind: DType) -> None:
    """The launch of a pass.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        Lines along its last axis.
    out : Storage
        Where they go.
    step : Pass
        The pass.
    kind : DType
        Of the complex numbers, or of their parts.
    """
    device, options, n = x.device, step.options, step.length
    lines = prod(x.shape[:-1]) * step.step_in
    run = _run(x, step)
    lanes = 1 if run == 1 else lanes_of(device.capabilities, kind)
    mirrored = options.real == MIRRORED
    one_by_one = lanes == 1 or (mirrored and (step.step_in > 1 or options.table is not None))
    how_in = None if one_by_one else _neighbours(x, step.step_in, step)
    how_out = None if lanes == 1 else _neighbours(out, step.step_out, step)
    blocks = lines // run * -(-run // lanes)
    workers = min(blocks, device.capabilities.compute_units * _WORKERS_PER_UNIT)
    steps = radices(n, _LARGEST_RADIX, mixed=False)
    find = partial(TABLES, device, kind, stage_rotations, steps)
    between = rotations_between(recipe, device, kind, step)
    given, form_in = _as_taken(x, how_in, options)
    made, form_out = _as_taken(out, how_out, options)
    recipe.launch(
        transform_in_vectors,
        workers,
        1,
        step.source(given, kind, _table, near=how_in, form=form_in),
        step.target(made, kind, _table, between, near=how_out, form=form_out),
        recipe.empty((workers, (4 * n + 2) * lanes), kind.real),
        _table(found_table(recipe, find)),
        lines,
        run,
        n,
        np.int64(sum(r << 4 * i for i, r in enumerate(steps))),
        LANES=lanes,
    )


def _table(x: Any) -> Any:
    """A table as the kernel takes it."""
    return in_parts(x, WITHIN)


def _run(x: Any, step: Pass) -> int:
    """How many consecutive lines may share vectors."""
    if step.inner > 1:
        return step.inner
    longest = max(step.step_in, step.step_out)
    return longest if longest > 1 else prod(x.shape[:-1])


def _neighbours(x: Any, apart: int, step: Pass) -> str | None:
    """How lines lie that are read or written together."""
    size = x.dtype.itemsize
    if step.options.form(x) == HALVED:
        return None
    # Lines that share vectors are of `inner` rows, which may lie so in the other array alone.
    many = x.ndim == 2 or (step.inner > 1 and x.shape[-2] % step.inner == 0)
    if x.strides[-2] == size and x.shape[-2] > 1 and many and (step.inner > 1 or apart == 1):
        return BESIDE
    if x.strides[-1] != size or (apart > 1 and step.inner > 1):
        return None
    return WITHIN if apart > 1 else ALONG


def _as_taken(x: Any, how: str | None, options: PassOptions) -> tuple[Any, str | None]:
    """An array as the kernel takes it, and how that holds the parts of complex numbers."""
    if how is None or not x.dtype.is_complex:
        return x, options.form(x)
    return in_parts(x, how), how
