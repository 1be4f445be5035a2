"""Copies between global and local memory."""

from __future__ import annotations

from typing import Any

from portable.dtypes import uint64
from portable.lang.frontend import memory
from portable.lang.frontend.builder import Builder, handles
from portable.lang.frontend.conversion import as_index, as_type, as_value
from portable.lang.frontend.handlers.collectives import meeting_items
from portable.lang.frontend.handlers.memory import view_of
from portable.lang.frontend.values import View, describe
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array, Layout


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
