"""Adjoints of tiles in registers, where work-items touch none but elements of their own.

In a product by tiles each work-item copies one element of a tile, and works out what its adjoint is
(`tile_sums`): no other one sees it. The barrier before it is taken then orders nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from portable.gradients.adjoint.names import Names, zero
from portable.gradients.adjoint.own_elements import resolved_index
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.nodes import constant_of
from portable.lang.ir.types import Array
from portable.lang.ir.walks import all_statements, map_block


def in_registers(
    body: s.Block, tiles: Sequence[Array], kernel: Kernel, names: Names
) -> tuple[s.Block, list[e.Variable]]:
    """A body with variables for such tiles, and the variables.

    Parameters
    ----------
    body : Block
    tiles : sequence of Array
        The local arrays of adjoints, which loops at the beginning of the body clear.
    kernel : Kernel
        The flat program that it is the adjoint of.
    names : Names
    """
    clearing = {id(x): array for x in body if (array := _cleared(x, tiles)) is not None}
    own = _own([x for x in body if id(x) not in clearing], set(clearing.values()), kernel)
    if not own:
        return body, []
    cells = {x: names.variable(x.name, x.dtype.register) for x in own}

    def change(x: s.Statement) -> s.Block:
        if isinstance(x, s.Load) and x.array in cells:
            return (s.Let(x.var, cells[x.array], x.loc),)
        if isinstance(x, s.Store) and x.array in cells:
            return (s.Assign(cells[x.array], x.value, x.loc),)
        return (x,)

    out: list[s.Statement] = []
    for x in body:
        array = clearing.get(id(x))
        if array in cells:
            out.append(s.Assign(cells[array], zero(cells[array].type), x.loc))
        else:
            out += map_block((x,), change)
    return tuple(out), list(cells.values())


def _own(body: Sequence[s.Statement], tiles: set[Array], kernel: Kernel) -> list[Array]:
    """The tiles of which each work-item touches one element, which is at its own place."""
    everything = list(all_statements(tuple(body)))
    values = {x.var.name: x.value for x in everything if isinstance(x, s.Let)}
    indices: dict[Array, set[tuple[e.Expression, ...]]] = {x: set() for x in tiles}
    for x in everything:
        for array in x.touched():
            if array in indices:
                index = x.index if isinstance(x, s.Load | s.Store) else ()
                indices[array].add(resolved_index(index, values))
    return [
        x for x, held in indices.items() if len(held) == 1 and _is_own(next(iter(held)), kernel)
    ]


def _cleared(x: s.Statement, tiles: Sequence[Array]) -> Array | None:
    """The tile that a loop makes nought, if it does no more."""
    store = x.body[0] if isinstance(x, s.For) and len(x.body) == 1 else None
    if not isinstance(store, s.Store) or store.array not in tiles or constant_of(store.value) != 0:
        return None
    return store.array if store.array.space == "local" and store.array.lanes == 1 else None


def _is_own(index: tuple[e.Expression, ...], kernel: Kernel) -> bool:
    """Whether an index is the place of the work-item in its workgroup."""
    places = {x.dim for x in index if isinstance(x, e.WorkItem) and x.word == "local_id"}
    return all(dim in places for dim, n in enumerate(kernel.workgroup) if n > 1)


def without_last_barrier(body: s.Block) -> s.Block:
    """A body whose last loop's rounds do not meet twice with nothing to order in between."""
    loop = body[-1] if body else None
    if not isinstance(loop, s.For):
        return body
    meetings = [i for i, x in enumerate(loop.body) if isinstance(x, s.Barrier)]
    if len(meetings) < 2:
        return body
    first, last = meetings[0], meetings[-1]
    if any(map(_is_ordered, (*loop.body[:first], *loop.body[last + 1 :]))):
        return body
    return (*body[:-1], replace(loop, body=(*loop.body[:last], *loop.body[last + 1 :])))


def _is_ordered(x: s.Statement) -> bool:
    """Whether a barrier beside a statement may mean something to it."""
    for y in all_statements((x,)):
        added = isinstance(y, s.Atomic) and y.var is None and y.array.space == "global"
        if isinstance(y, s.Barrier) or (y.touched() and not added):
            return True
    return False
