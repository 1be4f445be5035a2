"""Evaluating pure value trees: each node becomes a function of the workgroup."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from portable.errors import UnsupportedError
from portable.lang.ir import expressions as e
from portable.lang.ir.elementwise import FUNCTIONS
from portable.lang.ir.types import lanes_of, scalar_of
from portable.sim import report, values
from portable.sim.launch import Site
from portable.sim.values import Value
from portable.sim.workgroup import Workgroup

_FEW: Final = 8
"""Of an array's extents, so many different ones are kept ready."""

Evaluate = Callable[[Workgroup], Value]
"""Gives a value for every work-item, active or not; inactive ones get something harmless."""


def evaluator(x: e.Expression, size: int, site: Site) -> Evaluate:
    """The function that evaluates an expression for `size` work-items at a statement.

    Parameters
    ----------
    x : Expression
    size : int
    site : Site
        The statement.
    """

    def inner(child: e.Expression) -> Evaluate:
        return evaluator(child, size, site)

    match x:
        case e.Const(value, of):
            constant = np.full(size, value, of.numpy)
            return lambda w: constant
        case e.Variable(name):
            return lambda w: w.env[name]
        case e.Extent(array, dim, of):
            extents = lru_cache(_FEW)(lambda n: np.full(size, n, of.numpy))
            return lambda w: extents(w.buffers[array].extents[dim])
        case e.WorkItem():
            return lambda w: w.word(x)
        case e.Unary(op, operand):
            return _unary(values.UNARY[op], inner(operand))
        case e.Binary(op, left, right, nonnegative):
            if nonnegative:
                return _nonnegative(values.BINARY[op], inner(left), inner(right), site)
            return _binary(values.BINARY[op], inner(left), inner(right))
        case e.Compare(compare, left, right):
            return _binary(values.COMPARE[compare], inner(left), inner(right))
        case e.Select(condition, left, right):
            return _select(inner(condition), inner(left), inner(right))
        case e.Cast(operand, kind, storage, _):
            source, target = inner(operand), scalar_of(kind)
            return lambda w: values.cast(source(w), target, storage)
        case e.Bitcast(operand, kind):
            source, format_ = inner(operand), scalar_of(kind).numpy
            return lambda w: source(w).view(format_)
        case e.Call():
            return _call(x, tuple(inner(a) for a in x.arguments))
        case e.AssumeUniform(operand):
            return _assume_uniform(inner(operand), site)
        case _:
            return _of_vectors(x, inner)


def _of_vectors(x: e.Expression, inner: Callable[[e.Expression], Evaluate]) -> Evaluate:
    """The same of what makes vectors, and what takes them apart."""
    match x:
        case e.Splat(operand, vector):
            source, lanes = inner(operand), vector.lanes
            return lambda w: np.repeat(source(w)[:, None], lanes, axis=1)
        case e.MakeVector(elements):
            parts = tuple(inner(element) for element in elements)
            return lambda w: np.stack([part(w) for part in parts], axis=1)
        case e.Lane(operand, lane):
            source = inner(operand)
            return lambda w: source(w)[:, lane]
        case e.Compress(operand, mask):
            return _binary(_compressed, inner(operand), inner(mask))
        case e.Count(mask):
            chosen = inner(mask)
            return lambda w: chosen(w).sum(axis=1, dtype=np.int32)
        case _:
            raise UnsupportedError(f"{type(x).__name__} is not simulated")


def _compressed(x: Value, mask: Value) -> Value:
    """What is chosen in front, zeros behind."""
    chosen = np.where(mask, x, np.zeros((), x.dtype))
    return np.take_along_axis(chosen, np.argsort(~mask, axis=1, kind="stable"), axis=1)


def _unary(operation: Callable[[Value], Value], x: Evaluate) -> Evaluate:
    return lambda w: operation(x(w))


def _binary(operation: Callable[[Value, Value], Value], x: Evaluate, y: Evaluate) -> Evaluate:
    return lambda w: operation(x(w), y(w))


def _nonnegative(
    operation: Callable[[Value, Value], Value], x: Evaluate, y: Evaluate, site: Site
) -> Evaluate:
    def checked(w: Workgroup) -> Value:
        left, right = x(w), y(w)
        if w.settings.promises:
            negative = w.active.pick((left < 0) | (right < 0))
            if negative.any():
                items = w.active.ids[negative.reshape(w.active.count, -1).any(axis=1)]
                raise report.broken_promise(w, site, "a divided number is negative", items)
        return operation(left, right)

    return checked


def _select(condition: Evaluate, x: Evaluate, y: Evaluate) -> Evaluate:
    return lambda w: values.select(condition(w), x(w), y(w))


def _call(x: e.Call, arguments: tuple[Evaluate, ...]) -> Evaluate:
    function, result = FUNCTIONS[x.function].numpy, scalar_of(x.type).numpy
    assert lanes_of(x.type) == lanes_of(x.arguments[0].type)

    def call(w: Workgroup) -> Value:
        outcome: Value = function(*(argument(w) for argument in arguments))
        return outcome.astype(result, copy=False)

    return call


def _assume_uniform(x: Evaluate, site: Site) -> Evaluate:
    def same(w: Workgroup) -> Value:
        result = x(w)
        if w.settings.uniform and w.active.count:
            check_uniform(w, site, "a value assumed to be uniform", result)
        return result

    return same


def check_uniform(w: Workgroup, site: Site, what: str, x: Value) -> None:
    """Report a value that differs between the active work-items; NaN is like NaN."""
    picked = w.active.pick(x)
    expected = np.broadcast_to(picked[:1], picked.shape)
    if ((picked != expected) & ((picked == picked) | (expected == expected))).any():
        raise report.not_uniform(w, site, what, picked, expected)
