"""The passes over memory of a transform, written down as launches.

The floor of a pass is a copy. Through NVIDIA's OpenCL an H200 did 16384 rows of 1024 numbers at
0.98 of cuFFT's speed, which is 0.9 of its copy's; of 1024 reals at 0.92 (`float32`) and 0.94
(`float64`). Rows that local memory cannot hold take two passes or three: one of 2^22 numbers was
at 0.76 (`complex64`) and 1.06 (`complex128`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from portable.array.fourier import plan
from portable.array.fourier.access import Form
from portable.array.fourier.kernels import Shape, transform_by_workgroup
from portable.array.fourier.vector_kernels import transform_in_vectors
from portable.backend import Capabilities, Device
from portable.dtypes import DType, complex64, complex128
from portable.primitives.base.recipe import Recipe
from portable.tune.ways import Way, Ways

# How lines are shared among the workers and vector lanes of a processor.

_LARGEST_ALONE: Final = 8
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
    return plan.balanced(n, most)


def lanes_of(capabilities: Capabilities, kind: DType) -> int:
    """How many lines a vector is of."""
    return min(_MOST_LANES, max(2, capabilities.vector_bytes // kind.real.itemsize))


def launch_in_vectors(recipe: Recipe, x: Any, out: Any, step: plan.Pass, kind: DType) -> None:
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
    mirrored = options.real == Form.MIRRORED
    one_by_one = lanes == 1 or (mirrored and (step.step_in > 1 or options.table is not None))
    how_in = None if one_by_one else _neighbours(x, step.step_in, step)
    how_out = None if lanes == 1 else _neighbours(out, step.step_out, step)
    blocks = lines // run * -(-run // lanes)
    workers = min(blocks, device.capabilities.compute_units * _WORKERS_PER_UNIT)
    steps = plan.radices(n, _LARGEST_ALONE, mixed=False)
    find = partial(plan.TABLES, device, kind, plan.stage_rotations, steps)
    between = plan.rotations_between(recipe, device, kind, step)
    given, form_in = _taken_in_vectors(x, how_in, options)
    made, form_out = _taken_in_vectors(out, how_out, options)
    recipe.launch(
        transform_in_vectors,
        workers,
        1,
        step.source(given, kind, _table_of_parts, near=how_in, form=form_in),
        step.target(made, kind, _table_of_parts, between, near=how_out, form=form_out),
        recipe.empty((workers, (4 * n + 2) * lanes), kind.real),
        _table_of_parts(plan.found_table(recipe, find)),
        lines,
        run,
        n,
        np.int64(sum(r << 4 * i for i, r in enumerate(steps))),
        LANES=lanes,
    )


def _table_of_parts(x: Any) -> Any:
    """A table as the kernel takes it."""
    return plan.as_real_pairs(x, Form.WITHIN)


def _run(x: Any, step: plan.Pass) -> int:
    """How many consecutive lines may share vectors."""
    if step.inner > 1:
        return step.inner
    longest = max(step.step_in, step.step_out)
    return longest if longest > 1 else prod(x.shape[:-1])


def _neighbours(x: Any, apart: int, step: plan.Pass) -> str | None:
    """How lines lie that are read or written together."""
    size = x.dtype.itemsize
    if step.options.form(x) == Form.HALVED:
        return None
    # Lines that share vectors are of `inner` rows, which may lie so in the other array alone.
    many = x.ndim == 2 or (step.inner > 1 and x.shape[-2] % step.inner == 0)
    if x.strides[-2] == size and x.shape[-2] > 1 and many and (step.inner > 1 or apart == 1):
        return Form.BESIDE
    if x.strides[-1] != size or (apart > 1 and step.inner > 1):
        return None
    return Form.WITHIN if apart > 1 else Form.ALONG


def _taken_in_vectors(x: Any, how: str | None, options: plan.PassOptions) -> tuple[Any, str | None]:
    """An array as the kernel takes it, and how that holds the parts of complex numbers."""
    if how is None or not x.dtype.is_complex:
        return x, options.form(x)
    return plan.as_real_pairs(x, how), how


# -- passes ----------------------------------------------------------------------------------------

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
    beside = plan.lies_across(x) or plan.lies_across(out)
    lines = _SECTOR // kind.itemsize
    if n <= _elements(capabilities, kind, _MOST_HELD) // (lines if beside else 1):
        return (n,)
    return plan.balanced(n, max(16, _elements(capabilities, kind, _HELD) // lines))


def _elements(capabilities: Capabilities, kind: DType, held: int) -> int:
    """How many a workgroup has room for: parts of them in local memory, all in registers."""
    local = capabilities.local_memory * 31 // 32 // kind.real.itemsize
    return min(local, capabilities.max_workgroup * (held // kind.itemsize))


def _shape(x: Any, out: Any, step: plan.Pass, steps: tuple[int, ...], kind: DType) -> Shape:
    """As wide as stages have butterflies, and as tall as memory is used well."""
    capabilities = x.device.capabilities
    across_in = plan.lies_across(x, step.step_in, step.inner)
    across = plan.lies_across(out, step.step_out, step.inner)
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
    splits, width = step.options.real == Form.SPLIT, min(width, group // tall)
    return Shape(kind.real, n, steps, width, tall, across, across != across_in, whole, splits)


def power_below(n: int) -> int:
    """The largest power of two that is not above `n`."""
    return 1 << n.bit_length() - 1


def launch_by_workgroups(recipe: Recipe, x: Any, out: Any, step: plan.Pass, kind: DType) -> None:
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
    steps = plan.radices(step.length, _LARGEST_RADIX)
    shape = _shape(x, out, step, steps, kind)
    lines = prod(x.shape[:-1]) * step.step_in
    find = partial(plan.TABLES, device, kind, plan.stage_rotations, steps)
    twiddles = plan.found_table(recipe, find)
    between = plan.rotations_between(recipe, device, kind, step)
    fitting = Form.FITTING if _is_fitting(x, out, step) else None
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
    words = x is None or x.dtype is complex64
    return plan.in_words(x) if words else plan.as_real_pairs(x, Form.WITHIN)


def _as_taken(x: Any, options: plan.PassOptions) -> tuple[Any, str | None]:
    """An array as the kernel takes it, each number in one piece where neighbours' parts are."""
    if x.dtype is not complex128:
        return plan.in_words(x), options.form(x)
    if x.strides[-1] == x.dtype.itemsize:
        return plan.as_real_pairs(x, Form.WITHIN), Form.WITHIN
    if x.ndim > 1 and x.strides[-2] == x.dtype.itemsize:
        return plan.as_real_pairs(x, Form.BESIDE), Form.BESIDE
    return x, None


def _is_fitting(x: Any, out: Any, step: plan.Pass) -> bool:
    """Whether rows are as long as what is read and written."""
    if step.options.real == Form.MIRRORED:
        return False
    numbers_in, numbers_out = (y.shape[-1] // (2 if step.options.form(y) else 1) for y in (x, out))
    wanted_in = step.length * step.step_in + (step.options.real == Form.MERGED)
    wanted_out = step.length * step.step_out + (step.options.real == Form.SPLIT)
    return bool(numbers_in >= wanted_in and numbers_out >= wanted_out)


class Passes(NamedTuple):
    """How lines are transformed.

    Attributes
    ----------
    parts : callable
        The lengths of the passes, of two arrays, a length and a dtype.
    launch : callable
        Launches one.
    """

    parts: Callable[[Any, Any, int, DType], tuple[int, ...]]
    launch: Callable[[Recipe, Any, Any, plan.Pass, DType], None]


PASSES: Final = Ways[Device, Passes](
    "passes of a Fourier transform",
    Way(
        "in vectors",
        "transform_in_vectors",
        lambda _: iter((Passes(parts_in_vectors, launch_in_vectors),)),
        lambda x: x.capabilities.single_work_items,
    ),
    Way(
        "by workgroup",
        "transform_by_workgroup",
        lambda _: iter((Passes(parts_by_workgroups, launch_by_workgroups),)),
    ),
)
"""How lines of lengths with small factors are transformed."""


def transform(job: plan.Transform) -> None:
    """Writes down a transform of rows whose length has factors with a butterfly alone.

    A line too long for one pass is cut as in D. H. Bailey, "FFTs in external or hierarchical
    memory", Journal of Supercomputing 4 (1990).
    """
    recipe, x, out, n, kind, options = job
    passes = PASSES.first(x.device)
    parts, launch = passes.parts(x, out, n, kind), passes.launch
    inner = _rows_side_by_side(x, out)
    if len(parts) == 1:
        launch(recipe, x, out, plan.Pass(n, 1, 1, inner, False, options), kind)
        return
    rows = prod(x.shape[:-1])
    source, now, done, left = x, options.first(), 1, n
    for part in parts[:-1]:
        # What earlier passes found tells rows apart; each row is transformed by the rest.
        held = _rows_like(recipe.empty((rows * n,), kind), rows // inner * done, inner, left)
        left //= part
        launch(recipe, source, held, plan.Pass(part, left, left, inner, True, now), kind)
        done *= part
        source, now = _rows_like(held, rows // inner * done, inner, left), plan.PassOptions()
    source = _by_first_part(held, rows // inner, inner, parts)
    launch(recipe, source, out, plan.Pass(left, 1, done, inner, False, options.last()), kind)


def is_one_pass(x: Any, out: Any, n: int, kind: DType) -> bool:
    """Whether `transform` takes one pass over memory.

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
    return len(PASSES.first(x.device).parts(x, out, n, kind)) == 1


def rows_beside_each_other(recipe: Recipe, x: Any, n: int, kind: DType) -> Any:
    """A new array of rows of `n` that lie as those of another do, in one dimension but the last.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        Lines along its last axis.
    n : int
        Elements of a line.
    kind : DType
        Of the complex numbers, or of their parts.
    """
    rows = prod(x.shape[:-1])
    inner = _rows_side_by_side(x, x)
    return _rows_like(recipe.empty((rows * n,), kind), rows // inner, inner, n)


def _rows_side_by_side(x: Any, out: Any) -> int:
    """How many rows lie side by side, element by element, in one of two arrays; 1 for none."""
    return next((int(y.shape[-2]) for y in (out, x) if plan.lies_across(y)), 1)


def _rows_like(held: Any, outer: int, inner: int, length: int) -> Any:
    """A view as rows of a length, `inner` of them side by side."""
    size = held.dtype.itemsize
    strides = (inner * length * size, size, inner * size)
    return plan.with_few_dimensions(held.viewed((outer, inner, length), strides))


def _by_first_part(held: Any, outer: int, inner: int, parts: tuple[int, ...]) -> Any:
    """The last pass's lines in the order of its results, in which the first part is fastest."""
    n = prod(parts)
    steps, left = [], n * inner * held.dtype.itemsize
    for part in parts[:-1]:
        left //= part
        steps.append(left)
    shape = (outer, *parts[-2::-1], inner, parts[-1])
    size = held.dtype.itemsize
    strides = (n * inner * size, *steps[::-1], size, inner * size)
    return plan.with_few_dimensions(held.viewed(shape, strides))
