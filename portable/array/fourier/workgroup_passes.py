"""How lines are shared among workgroups, where those have local memory of their own."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, Final

from portable.array.fourier.access import BESIDE, FITTING, MERGED, MIRRORED, SPLIT, WITHIN
from portable.array.fourier.kernels import Shape, transform_by_workgroup
from portable.array.fourier.pass_options import (
    TABLES,
    Pass,
    PassOptions,
    found_table,
    in_parts,
    in_words,
    lies_across,
    rotations_between,
)
from portable.array.fourier.plan import balanced, radices
from portable.array.fourier.tables import stage_rotations
from portable.backend import Capabilities
from portable.dtypes import DType, complex64, complex128
from portable.primitives.base.recipe import Recipe

__all__ = ["launch_by_workgroups", "parts_by_workgroups"]

_LARGEST_RADIX: Final = 16
_GROUP: Final = 128
_HELD: Final = 128
"""Bytes of numbers that a work-item holds in registers with ease."""
_MOST_HELD: Final = 256
"""Bytes that it can hold."""
_SECTOR: Final = 32
"""Bytes that memory gives at once, to be used by neighbouring lines."""
_SEGMENT: Final = 128
"""Bytes that neighbouring lines should use together."""


def parts_by_workgroups(x: Any, out: Any, n: int, kind: DType) -> tuple[int, ...]:
    """The lengths of the passes: one if a workgroup holds a line, and some that lie across.

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
    capabilities = x.device.capabilities
    beside = lies_across(x) or lies_across(out)
    lines = _SECTOR // kind.itemsize
    if n <= _elements(capabilities, kind, _MOST_HELD) // (lines if beside else 1):
        return (n,)
    return balanced(n, max(16, _elements(capabilities, kind, _HELD) // lines))


def _elements(capabilities: Capabilities, kind: DType, held: int) -> int:
    """How many a workgroup has room for: parts of them in local memory, all in registers."""
    local = capabilities.local_memory * 31 // 32 // kind.real.itemsize
    return min(local, capabilities.max_workgroup * (held // kind.itemsize))


def _shape(x: Any, out: Any, step: Pass, steps: tuple[int, ...], kind: DType) -> Shape:
    """As wide as stages have butterflies, and as tall as memory is used well."""
    capabilities = x.device.capabilities
    across_in = lies_across(x, step.step_in, step.inner)
    across = lies_across(out, step.step_out, step.inner)
    group, n = capabilities.max_workgroup, step.length
    width = min(-(-n // max(steps)), group)
    least = most = 1
    if across or across_in:
        least, most = _SECTOR // kind.itemsize, _SEGMENT // kind.itemsize
    comfortable = max(least, _elements(capabilities, kind, _HELD) // n)
    possible = min(comfortable, _elements(capabilities, kind, _MOST_HELD) // n)
    tall = power_below(max(1, min(max(_GROUP // width, most), possible, group)))
    # Whole numbers take so many bytes, some room being left out among them.
    whole = tall * n * kind.itemsize * 33 // 32 <= capabilities.local_memory
    splits, width = step.options.real == SPLIT, min(width, group // tall)
    return Shape(kind.real, n, steps, width, tall, across, across != across_in, whole, splits)


def power_below(n: int) -> int:
    """The largest power of two that is not above `n`."""
    return 1 << n.bit_length() - 1


def launch_by_workgroups(recipe: Recipe, x: Any, out: Any, step: Pass, kind: DType) -> None:
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
    device = x.device
    steps = radices(step.length, _LARGEST_RADIX)
    shape = _shape(x, out, step, steps, kind)
    lines = prod(x.shape[:-1]) * step.step_in
    twiddles = found_table(recipe, partial(TABLES, device, kind, stage_rotations, steps))
    between = rotations_between(recipe, device, kind, step)
    fitting = FITTING if _is_fitting(x, out, step) else None
    given, form_in = _as_taken(x, step.options)
    made, form_out = _as_taken(out, step.options)
    recipe.launch(
        transform_by_workgroup,
        -(-lines // shape.tall) * shape.group,
        shape.group,
        step.source(given, kind, _table, form=form_in, fitting=fitting),
        step.target(made, kind, _table, between, form=form_out, fitting=fitting),
        _table(twiddles),
        lines,
        SHAPE=shape,
    )


def _table(x: Any) -> Any:
    """A table as the kernel takes it."""
    return in_words(x) if x is None or x.dtype is complex64 else in_parts(x, WITHIN)


def _as_taken(x: Any, options: PassOptions) -> tuple[Any, str | None]:
    """An array as the kernel takes it, each number in one piece where neighbours' parts are."""
    if x.dtype is not complex128:
        return in_words(x), options.form(x)
    if x.strides[-1] == x.dtype.itemsize:
        return in_parts(x, WITHIN), WITHIN
    if x.ndim > 1 and x.strides[-2] == x.dtype.itemsize:
        return in_parts(x, BESIDE), BESIDE
    return x, None


def _is_fitting(x: Any, out: Any, step: Pass) -> bool:
    """Whether rows are as long as what is read and written."""
    if step.options.real == MIRRORED:
        return False
    numbers_in, numbers_out = (y.shape[-1] // (2 if step.options.form(y) else 1) for y in (x, out))
    wanted_in = step.length * step.step_in + (step.options.real == MERGED)
    wanted_out = step.length * step.step_out + (step.options.real == SPLIT)
    return bool(numbers_in >= wanted_in and numbers_out >= wanted_out)
