"""Copies between global and local memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from portable.dtypes import uint64
from portable.lang.frontend import memory
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import as_index, as_type, as_value, unify
from portable.lang.frontend.handlers.matrices import fragment_of
from portable.lang.frontend.handlers.memory import view_of
from portable.lang.frontend.handlers.places import meeting_items
from portable.lang.frontend.handlers.registry import handles
from portable.lang.frontend.structs import is_callable
from portable.lang.frontend.values import Value, View, describe
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Interval
from portable.lang.ir.kernel import all_statements
from portable.lang.ir.pipeline import Pipeline
from portable.lang.ir.types import Array, Layout

# Pipelines of tiles.


class _PipelineOptions(NamedTuple):
    """The keyword arguments of `portable.lang.pipeline`."""

    ahead: Any
    valid: Any
    transposed: Any
    rotated: Any
    after: Any


@handles("pipeline")
def _pipeline(
    builder: Builder,
    accumulator: Any,
    tiles: Any,
    read: Any,
    start: Any,
    stop: Any,
    **how: Any,
) -> None:
    from portable.lang.library import pipeline

    total = fragment_of(builder, accumulator, "kl.pipeline")
    stages = _stages(builder, tiles)
    ahead, valid, transposed, rotated, after = options = _PipelineOptions(**how)
    _check(builder, stages, read, options)
    var, first, last = _steps(builder, start, stop)
    builder.scratch_used = True  # what a later round begins with
    step = Value(var)
    with builder.block() as copies:
        builder.inline(pipeline.read_slot, [tiles, read, step, ahead, stages], {})
    with builder.block() as product:
        given = [total, tiles, valid, step, stages, transposed]
        builder.inline(pipeline.multiply_slot, given, {})
    here = builder.location
    multiply = product.pop()
    assert isinstance(multiply, s.Multiply)
    # The location is the user's, not the helper's.
    product.append(replace(multiply, loc=here, anew=after is not None))
    if after is not None:
        with builder.block() as following:
            builder.inline(pipeline.follow, [after, step], {})
        _check_no_meeting(builder, tuple(following))
        product += following
    whole = tuple(copies), tuple(product)
    builder.emit(Pipeline(var, first, last, *whole, stages, ahead, rotated, here))


def _check_no_meeting(builder: Builder, following: s.Block) -> None:
    """Refuses what work-items that only copy would have to take part in."""
    for x in all_statements(following):
        if x.together() != "work_item" and not isinstance(x, s.FragmentFill | s.ForElements):
            builder.fail(
                f"after of kl.pipeline holds {type(x).__name__}, for which work-items meet",
                "it may map and fill matrices, and do what a work-item does alone",
            )


def _stages(builder: Builder, tiles: Any) -> int:
    """How many slots both operands have."""
    pair = tiles if isinstance(tiles, tuple) and len(tiles) == 2 else ()
    local = all(isinstance(x, View) and x.array.space == "local" and x.ndim == 3 for x in pair)
    if not pair or not local:
        builder.fail(
            f"kl.pipeline takes two local arrays of three dimensions, not {describe(tiles)}",
            "such as kl.local((STAGES, M, K), kl.f32) and kl.local((STAGES, K, N), kl.f32)",
        )
    left, right = (x.extents[0] for x in pair)
    if not isinstance(left, int) or left != right:
        builder.fail(f"the tiles of kl.pipeline have {left} and {right} slots", "give both as many")
    return left


def _check(builder: Builder, stages: int, read: Any, options: _PipelineOptions) -> None:
    """Refuses what is no constant, no function, or copies that would overtake products."""
    ahead, functions = options.ahead, (read, options.valid, options.after)
    if not isinstance(ahead, int) or not 0 <= ahead < stages:
        builder.fail(
            f"ahead of kl.pipeline is {describe(ahead)} for {stages} slots",
            f"a constant from 0 to {stages - 1}: a slot more is multiplied meanwhile",
        )
    for name, given in zip(("read", "valid", "after"), functions, strict=True):
        if not is_callable(given) and (name == "read" or given is not None):
            builder.fail(f"{name} of kl.pipeline is a function, not {describe(given)}")
    for name, flag in (("transposed", options.transposed), ("rotated", options.rotated)):
        if not isinstance(flag, bool):
            builder.fail(f"{name} of kl.pipeline is a constant, not {describe(flag)}")


def _steps(
    builder: Builder, start: Any, stop: Any
) -> tuple[e.Variable, e.Expression, e.Expression]:
    """The variable that counts steps, and where it begins and ends."""
    for x in (start, stop):
        integer = isinstance(x, Value) and x.dtype.is_integer and x.lanes == 1
        if not integer and (not isinstance(x, int) or isinstance(x, bool)):
            builder.fail(f"the steps of kl.pipeline are integers, not {describe(x)}")
    values = unify(builder, start, stop, 1)
    dtype = values[0].dtype
    ends = zip(("start", "stop"), values, strict=False)
    first, last = (builder.let(name, as_type(builder, x, dtype).expr) for name, x in ends)
    var = builder.bind("step", first.type)
    low, high = builder.bounds(first).low, builder.bounds(last).high
    builder.intervals[var] = Interval(low, max(low, high - 1))
    return var, first, last


# -- copies ----------------------------------------------------------------------------------------


@handles("copy_async", "copy")
def _copy(builder: Builder, word: str, target: Any, source: Any) -> None:
    matrix = isinstance(target, View) and target.ndim == 2
    to = memory.region(builder, target, what=f"kl.{word}")
    start = memory.region(builder, source, what=f"kl.{word}", joins=matrix, spread=True)
    _check_spaces(builder, word, to.array, start.array)
    if to.shape != start.shape:
        builder.fail(f"kl.{word} of a part of shape {start.shape} to one of shape {to.shape}")
    builder.emit(s.CopyTile(to, start, builder.location, word == "copy_async"))


def _check_spaces(builder: Builder, word: str, target: Array, source: Array) -> None:
    if {target.space, source.space} != {"global", "local"}:
        builder.fail(f"kl.{word} goes between a global and a local array")
    if target.dtype is not source.dtype:
        builder.fail(
            f"kl.{word} of {source.dtype.short} to {target.dtype.short}",
            "copy to a local array of the same dtype and convert when loading from it",
        )


@handles("copy_commit")
def _commit(builder: Builder) -> None:
    builder.emit(s.CopyCommit(builder.location))


@handles("copy_wait")
def _wait(builder: Builder, pending: Any) -> None:
    if not isinstance(pending, int) or pending < 0:
        builder.fail(f"kl.copy_wait takes a constant number, not {describe(pending)}")
    builder.emit(s.CopyWait(pending, builder.location))


@handles("completion")
def _completion(builder: Builder, slots: Any) -> View:
    if not isinstance(slots, int) or slots < 1:
        builder.fail(f"kl.completion takes a positive constant, not {describe(slots)}")
    shape = (slots,)
    array = Array(builder.name("completion"), uint64, "local", 1, shape, Layout.row_major(shape))
    builder.arrays.append(array)
    builder.completions.add(array)
    return memory.whole(builder, array)


def _slot(builder: Builder, word: str, done: Any) -> tuple[Array, e.Expression]:
    if not isinstance(done, View) or done.ndim or done.array not in builder.completions:
        builder.fail(f"kl.{word} takes a slot of kl.completion(n), such as done[0]")
    return done.array, done.starts[0]


@handles("bulk_copy")
def _bulk_copy(
    builder: Builder,
    target: Any,
    target_index: Any,
    source: Any,
    source_index: Any,
    count: Any,
    done: Any,
) -> None:
    to, start = (view_of(builder, v, "bulk_copy") for v in (target, source))
    _check_spaces(builder, "bulk_copy", to.array, start.array)
    if (to.array.space == "local") != (done is not None):
        builder.fail("kl.bulk_copy takes a slot for completion into local memory, and only there")
    completion, slot = (None, None) if done is None else _slot(builder, "bulk_copy", done)
    builder.emit(
        s.BulkCopy(
            to.array,
            memory.place(builder, to, target_index),
            start.array,
            memory.place(builder, start, source_index),
            as_index(builder, count),
            completion,
            slot,
            builder.location,
        )
    )


@handles("bulk_wait")
def _bulk_wait(builder: Builder, done: Any, phase: Any, sub_groups: Any) -> None:
    completion, slot = _slot(builder, "bulk_wait", done)
    value = as_value(builder, phase)
    if not value.dtype.is_integer:
        builder.fail(f"the phase of kl.bulk_wait is an integer, not {describe(phase)}")
    number = as_type(builder, value, builder.index_type)
    meeting = meeting_items(builder, "bulk_wait", sub_groups)
    builder.emit(s.BulkWait(completion, slot, number.expr, builder.location, meeting))
