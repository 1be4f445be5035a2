"""Arrays of which each work-item reads and writes elements that no other one touches."""

from __future__ import annotations

from portable.gradients.adjoint.names import is_float
from portable.gradients.adjoint.rounds import Rounds, integer_type
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, Vector
from portable.lang.ir.walks import all_statements, map_expression, names_in, subexpressions


def own_elements(kernel: Kernel, dims: int) -> frozenset[Array]:
    """Those global arrays of a flat program, among all work-items.

    It is so where for each dimension of the ndrange the same part of all indices tells the
    work-items apart along it: the global id itself, or moved by a number that all share, or group
    and local id in two parts, or the group alone where it has one work-item. Whole workgroups may
    be added to the local id, and whole ndranges to the global one, another number of them each
    time.
    """
    dims = max(dims, kernel.dimensions)
    places = _places(kernel)
    return frozenset(x for x in places if _tell_apart(places[x], kernel, dims))


def own_in_workgroup(kernel: Kernel) -> frozenset[Array]:
    """Those of which no two work-items of one workgroup touch the same element."""
    sizes = kernel.workgroup
    return frozenset(
        array
        for array, words in _places(kernel).items()
        if all(
            n == 1 or ("local_id", dim) in words or ("global_id", dim) in words
            for dim, n in enumerate(sizes)
        )
    )


Term = tuple[str, int] | str
"""A place along a dimension, or a name."""

_Words = set[tuple[str, int] | None]


def _places(kernel: Kernel) -> dict[Array, _Words]:
    """By the global arrays: the places that tell work-items apart in all their indices."""
    values = values_of(kernel)
    indices: dict[Array, list[tuple[e.Expression, ...]]] = {}
    for x in all_statements(kernel.body):
        if isinstance(x, s.Load | s.Store | s.Atomic) and x.array.space == "global":
            index = resolved_index(x.index, values)
            if not isinstance(x, s.Atomic):
                moved = x.var if isinstance(x, s.Load) else x.value
                index = _without(index, x.axis) if isinstance(moved.type, Vector) else index
            indices.setdefault(x.array, []).append(index)
    return {array: _words(indices_of, kernel) for array, indices_of in indices.items()}


def values_of(kernel: Kernel) -> dict[str, e.Expression]:
    """What names of a flat program that are no floats stand for; counters of loops in part."""
    values: dict[str, e.Expression] = {}
    for x in all_statements(kernel.body):
        if isinstance(x, s.Let) and not is_float(x.value.type):
            values[x.var.name] = x.value
        elif isinstance(x, Rounds) and x.var is not None and x.bounds is not None:
            start, _, step = x.bounds
            number = e.Variable(f"{x.var.name}'", integer_type(start))
            values[x.var.name] = e.Binary("add", start, e.Binary("mul", number, step))
    return values


def resolved_index(
    index: tuple[e.Expression, ...], values: dict[str, e.Expression]
) -> tuple[e.Expression, ...]:
    """An index in terms of places and parameters, as far as names say."""
    return tuple(resolved(i, values) for i in index)


def _without(index: tuple[e.Expression, ...], axis: int) -> tuple[e.Expression, ...]:
    """The index but for the axis along which a vector lies."""
    at = axis % len(index)
    kind = index[at].type
    return (*index[:at], e.Const(0, kind), *index[at + 1 :])  # type: ignore[arg-type]


def resolved(x: e.Expression, values: dict[str, e.Expression]) -> e.Expression:
    """An expression in terms of places and parameters, as far as names say."""
    for _ in range(16):
        if names_in(x).isdisjoint(values):
            break
        x = map_expression(x, lambda y: values.get(y.name, y) if isinstance(y, e.Variable) else y)
    return x


def _words(indices: list[tuple[e.Expression, ...]], kernel: Kernel) -> _Words:
    words: _Words = set()
    for parts in zip(*indices, strict=True):
        if all(part == parts[0] for part in parts):
            words.add(_word(parts[0]))
        if not kernel.flat:
            modulo = {_modulo(part, kernel) for part in parts}
            words |= modulo if len(modulo) == 1 else set()
    return words


def _tell_apart(words: _Words, kernel: Kernel, dimensions: int) -> bool:
    return all(
        ("global_id", dim) in words
        or (
            ("group_id", dim) in words and (kernel.launched[dim] == 1 or ("local_id", dim) in words)
        )
        for dim in range(dimensions)
    )


def _modulo(x: e.Expression, kernel: Kernel) -> tuple[str, int] | None:
    """The place that an index is but for whole workgroups, or ndranges."""
    match x:
        case e.WorkItem(word="local_id" | "global_id"):
            return x.word, x.dim
        case e.Binary(op="add" | "sub"):
            for place, more in ((x.x, x.y), (x.y, x.x)) if x.op == "add" else ((x.x, x.y),):
                word = _modulo(place, kernel)
                if word is not None and _is_multiple(more, word, kernel):
                    return word
            return None
        case _:
            return None


def _is_multiple(x: e.Expression, word: tuple[str, int], kernel: Kernel) -> bool:
    """Whether a number is one of whole workgroups, or of whole ndranges."""
    match x:
        case e.Binary(op="mul"):
            return _is_multiple(x.x, word, kernel) or _is_multiple(x.y, word, kernel)
        case e.Binary(op="add" | "sub"):
            return _is_multiple(x.x, word, kernel) and _is_multiple(x.y, word, kernel)
        case e.WorkItem(word="global_size"):
            return word == ("global_id", x.dim)
        case e.Const():
            return word[0] == "local_id" and int(x.value) % kernel.workgroup[word[1]] == 0
        case _:
            return False


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


def linear(x: e.Expression) -> dict[Term | None, int] | None:
    """An integer as a sum of places and names with factors, and a number under None."""
    match x:
        case e.Const():
            return {None: int(x.value)}
        case e.Variable():
            return {x.name: 1}
        case e.WorkItem(word="local_id" | "global_id"):
            return {(x.word, x.dim): 1}
        case e.Cast() if not isinstance(x.type, Vector) and x.type.is_integer:
            return linear(x.x)
        case e.AssumeUniform():
            return linear(x.x)
        case e.Binary(op="add" | "sub" | "mul"):
            return _combined(x.op, linear(x.x), linear(x.y))
        case _:
            return None


def _combined(
    op: str, a: dict[Term | None, int] | None, b: dict[Term | None, int] | None
) -> dict[Term | None, int] | None:
    if a is None or b is None:
        return None
    if op == "mul":
        if a.keys() - {None}:
            a, b = b, a
        if a.keys() - {None}:
            return None
        return {term: factor * a.get(None, 0) for term, factor in b.items()}
    sign = 1 if op == "add" else -1
    total = {term: a.get(term, 0) + sign * b.get(term, 0) for term in a.keys() | b.keys()}
    return {term: factor for term, factor in total.items() if factor or term is None}
