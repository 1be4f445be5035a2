"""Pipelines of tiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from portable.lang.frontend.builder import Builder, handles
from portable.lang.frontend.conversion import as_type, unify
from portable.lang.frontend.handlers.memory import fragment_of
from portable.lang.frontend.structs import is_callable
from portable.lang.frontend.values import Value, View, describe, is_integer
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.facts import Interval
from portable.lang.ir.pipeline import Pipeline


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
    from portable.lang.library import collectives

    total = fragment_of(builder, accumulator, "kl.pipeline")
    stages = _stages(builder, tiles)
    ahead, valid, transposed, rotated, after = options = _PipelineOptions(**how)
    _check(builder, stages, read, options)
    var, first, last = _steps(builder, start, stop)
    builder.scratch_used = True  # what a later round begins with
    step = Value(var)
    with builder.block() as copies:
        builder.inline(collectives.read_slot, [tiles, read, step, ahead, stages], {})
    with builder.block() as product:
        given = [total, tiles, valid, step, stages, transposed]
        builder.inline(collectives.multiply_slot, given, {})
    here = builder.location
    multiply = product.pop()
    assert isinstance(multiply, s.Multiply)
    # The location is the user's, not the helper's.
    product.append(replace(multiply, loc=here, anew=after is not None))
    if after is not None:
        with builder.block() as following:
            builder.inline(collectives.follow, [after, step], {})
        _check_no_meeting(builder, tuple(following))
        product += following
    whole = tuple(copies), tuple(product)
    builder.emit(Pipeline(var, first, last, *whole, stages, ahead, rotated, here))


def _check_no_meeting(builder: Builder, following: s.Block) -> None:
    """Refuses what work-items that only copy would have to take part in."""
    for x in walks.all_statements(following):
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
        if not is_integer(x):
            builder.fail(f"the steps of kl.pipeline are integers, not {describe(x)}")
    values = unify(builder, start, stop, 1)
    dtype = values[0].dtype
    ends = zip(("start", "stop"), values, strict=False)
    first, last = (builder.let(name, as_type(builder, x, dtype).expr) for name, x in ends)
    var = builder.bind("step", first.type)
    low, high = builder.bounds(first).low, builder.bounds(last).high
    builder.intervals[var] = Interval(low, max(low, high - 1))
    return var, first, last
