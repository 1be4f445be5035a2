"""Arrays of which each work-item reads and writes elements that no other one touches."""

from __future__ import annotations

from portable.gradients.adjoint.activity import names_in
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, all_statements, map_expression, subexpressions
from portable.lang.ir.types import Array


def own_elements(kernel: Kernel, dims: int) -> frozenset[Array]:
    """Those global arrays of a flat program.

    It is so where for each dimension of the ndrange the same part of all indices tells the
    work-items apart along it: the global id itself, or moved by a number that all share, or group
    and local id in two parts.
    """
    values = values_of(kernel)
    indices: dict[Array, list[tuple[e.Expression, ...]]] = {}
    for x in all_statements(kernel.body):
        if isinstance(x, s.Load | s.Store | s.Atomic) and x.array.space == "global":
            whole = x.axis if not isinstance(x, s.Atomic) else None
            index = resolved_index(x.index, values)
            vector = not isinstance(x, s.Atomic) and _lanes(x)
            indices.setdefault(x.array, []).append(
                _without(index, whole) if vector and whole is not None else index
            )
    return frozenset(
        array
        for array, indices_of in indices.items()
        if _apart(indices_of, max(dims, kernel.dimensions))
    )


def values_of(kernel: Kernel) -> dict[str, e.Expression]:
    """What names of a flat program that are no floats stand for."""
    return {
        x.var.name: x.value
        for x in all_statements(kernel.body)
        if isinstance(x, s.Let) and not _is_float(x.value)
    }


def resolved_index(
    index: tuple[e.Expression, ...], values: dict[str, e.Expression]
) -> tuple[e.Expression, ...]:
    """An index in terms of places and parameters, as far as names say."""
    return tuple(_resolved(i, values) for i in index)


def _is_float(x: e.Expression) -> bool:
    from portable.gradients.adjoint.names import is_float

    return is_float(x.type)


def _lanes(x: s.Load | s.Store) -> bool:
    from portable.lang.ir.types import Vector

    return isinstance(x.var.type if isinstance(x, s.Load) else x.value.type, Vector)


def _without(index: tuple[e.Expression, ...], axis: int) -> tuple[e.Expression, ...]:
    """The index but for the axis along which a vector lies."""
    at = axis % len(index)
    kind = index[at].type
    return (*index[:at], e.Const(0, kind), *index[at + 1 :])  # type: ignore[arg-type]


def _resolved(x: e.Expression, values: dict[str, e.Expression]) -> e.Expression:
    for _ in range(16):
        if names_in(x).isdisjoint(values):
            break
        x = map_expression(x, lambda y: values.get(y.name, y) if isinstance(y, e.Variable) else y)
    return x


def _apart(indices: list[tuple[e.Expression, ...]], dimensions: int) -> bool:
    first = indices[0]
    same = [i for i, part in enumerate(first) if all(part == other[i] for other in indices)]
    words = [_word(first[i]) for i in same]
    return all(
        ("global_id", dim) in words or {("group_id", dim), ("local_id", dim)} <= set(words)
        for dim in range(dimensions)
    )


def _word(x: e.Expression) -> tuple[str, int] | None:
    """The place that an index is, but for a number that all work-items share."""
    match x:
        case e.WorkItem():
            return x.word, x.dim
        case e.Binary(op="add"):
            if _shared(x.y):
                return _word(x.x)
            return _word(x.y) if _shared(x.x) else None
        case e.Binary(op="sub") if _shared(x.y):
            return _word(x.x)
        case _:
            return None


def _shared(x: e.Expression) -> bool:
    return all(
        isinstance(y, e.Const | e.Extent | e.Binary | e.Unary | e.Cast) for y in subexpressions(x)
    )
