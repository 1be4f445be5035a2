"""Barriers, broadcasts and sub-group operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from portable.lang.ir import statements as s
from portable.sim import report
from portable.sim.launch import Site
from portable.sim.steps import Builder, Plain, Step, step
from portable.sim.values import Value
from portable.sim.workgroup import Workgroup


@step.register
def _(statement: s.Barrier, b: Builder) -> Step:
    site = b.site(statement.loc)

    def run(w: Workgroup) -> None:
        w.meet(site, "a barrier")
        w.barrier(statement.meeting)

    return Plain(run)


@step.register
def _(statement: s.WorkgroupUniform, b: Builder) -> Step:
    site, name = b.site(statement.loc), statement.var.name
    value = b.expression(statement.value, site)

    def run(w: Workgroup) -> None:
        w.meet(site, "a workgroup_uniform")
        w.barrier()
        values = value(w)
        w.env[name] = np.repeat(values[:1], w.size, axis=0)

    return Plain(run)


_REDUCTIONS: Final[dict[str, np.ufunc]] = {
    "reduce_add": np.add,
    "reduce_min": np.minimum,
    "reduce_max": np.maximum,
    "reduce_and": np.bitwise_and,
    "reduce_or": np.bitwise_or,
    "reduce_xor": np.bitwise_xor,
    "any": np.logical_or,
    "all": np.logical_and,
}

_SOURCES: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "shuffle": lambda own, argument: argument,
    "broadcast": lambda own, argument: argument,
    "shuffle_xor": np.bitwise_xor,
    "shuffle_up": np.subtract,
    "shuffle_down": np.add,
}


@step.register
def _(statement: s.SubGroup, b: Builder) -> Step:
    site, name, op = b.site(statement.loc), statement.var.name, statement.op
    value = b.expression(statement.value, site)
    argument = None if statement.argument is None else b.expression(statement.argument, site)

    def run(w: Workgroup) -> None:
        w.meet_sub_groups(site, f"a sub-group operation ({op})")
        result = value(w)
        if op in _SOURCES:
            assert argument is not None
            w.env[name] = result[_sources(w, site, op, argument(w))]
        else:
            w.env[name] = _together(result, w.kernel.sub_group_size, op)

    return Plain(run)


def _sources(w: Workgroup, site: Site, op: str, argument: Value) -> Value:
    """From which work-item each takes its value."""
    size = w.kernel.sub_group_size
    item = np.arange(w.size)
    lane, first = item % size, item - item % size
    if op == "broadcast" and w.settings.uniform:
        _check_uniform(w, site, argument, first)
    wanted = _SOURCES[op](lane, argument.astype(np.int64))
    outside = (wanted < 0) | (wanted >= size) | (first + wanted >= w.size)
    source: Value = np.where(outside, item, first + wanted)
    return source


def _check_uniform(w: Workgroup, site: Site, argument: Value, first: Value) -> None:
    mine, expected = w.active.pick(argument), w.active.pick(argument[first])
    if (mine != expected).any():
        what = "the work-item that a sub-group broadcasts"
        raise report.not_uniform(w, site, what, mine, expected)


def _together(x: Value, size: int, op: str) -> Value:
    """A reduction or scan of each sub-group; the last may be smaller than the rest."""
    whole = x.shape[0] // size * size
    parts = [x[:whole].reshape(-1, size, *x.shape[1:])]
    if whole < x.shape[0]:
        parts.append(x[None, whole:])
    return np.concatenate([_combined(part, op).reshape(-1, *x.shape[1:]) for part in parts])


def _combined(x: Value, op: str) -> Value:
    if op == "scan_add":
        return np.add.accumulate(x, axis=1, dtype=x.dtype)
    combine = _REDUCTIONS[op]
    combined = combine.reduce(x, axis=1, keepdims=True, dtype=x.dtype)
    return np.broadcast_to(combined, x.shape)
