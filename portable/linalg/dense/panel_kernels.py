"""The kernel that turns a panel into a triangle and the reflectors that do it.

A panel is `width` columns (or, `TRANSPOSED`, rows) of the matrix from a row on. Each node of its
tree (`reflector_tree`) leaves ``Q = I - V T V^T``: `v` holds its rows of V below each other, `t`
the transposed T. Columns of V beyond `width` are zeros. The first chunk of a node is overwritten
with the triangle, the others keep what is of no more use.

There are two algorithms. Work-items that share a node hold its rows in registers, so that every
loop over them is unrolled; one alone has thousands of elements, which it goes through by vectors
in loops, its rows staying in its caches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.sums import add_up_neighbours
from portable.linalg.dense.reflector_tree import Level, Node, Panel, Reflectors
from portable.linalg.dense.shapes import DenseShape
from portable.linalg.reflectors.householder import reflector
from portable.linalg.reflectors.vector_panels import eliminate_single


@kernel
def factor_panel(
    a: kl.Array,
    q: Reflectors,
    panel: Panel,
    level: Level,
    *,
    SHAPE: DenseShape,
    UNIT: int,
    TRANSPOSED: bool,
) -> None:
    """Factors a panel, which begins at so many times `UNIT`, from one level of its tree on."""
    node, matrix = Node(kl.group_id(0), level), a.T if TRANSPOSED else a
    panel = Panel(panel.row * UNIT, panel.column * UNIT, panel.width)
    going = node.number < level.nodes
    while going:
        if SHAPE.lanes > 1:
            node_in_vectors(matrix, q, panel, node, SHAPE)
        else:
            node_across_items(matrix, q, panel, node, SHAPE)
        node, going = node.climbed(q.counts, 0, 1, SHAPE)


# -- a workgroup: rows across dimension 0, columns across dimension 1 -----------------------------


@function
def node_across_items(
    a: kl.Array, q: Reflectors, panel: Panel, node: Node, SHAPE: DenseShape
) -> None:
    """A node by a workgroup whose work-items hold `COLS` columns of every so many rows each."""
    P, FAN, COLS = SHAPE.panel, SHAPE.fan, SHAPE.columns
    row, start, width = panel
    kind = a.dtype
    lanes, lane = kl.local_size(0), kl.local_id(0)
    group = kl.local_id(1)
    ROWS = FAN * P // lanes
    held = kl.private((COLS, ROWS), kind)
    gram = kl.local((P, P + 1), kind)
    shared = Shared(kl.local((2, FAN * P), kind), kl.local(2, kind), gram)
    for i in range(kl.local_linear_id(), P * P, lanes * kl.local_size(1)):
        gram[i // P, i % P] = 0
    first = group * COLS
    for r in kl.static_range(ROWS):
        at = r * lanes + lane
        line = row + node.line(at // P, SHAPE) + at % P
        for c in kl.static_range(COLS):
            held[c, r] = 0
            if line < a.shape[0] and first + c < width:
                held[c, r] = a[line, start + first + c]
    for turn in range(kl.cdiv(width, COLS)):
        for c in kl.static_range(COLS):
            if turn * COLS + c < width:
                eliminate(held, shared, turn, c, SHAPE)
    kl.barrier()
    for r in kl.static_range(ROWS):
        at = r * lanes + lane
        for c in kl.static_range(COLS):
            below = kl.where(at == first + c, kl.cast(1, kind), kl.cast(0, kind))
            below = kl.where(at > first + c, held[c, r], below)
            q.v[node.index * SHAPE.height + at, first + c] = below
            if r * lanes < P:
                line = row + node.line(0, SHAPE) + at
                if at < P and line < a.shape[0] and first + c < width:
                    a[line, start + first + c] = kl.where(
                        at > first + c, held[c, r] * 0, held[c, r]
                    )
    store_factor(q.t, gram, node.index, P)


class Shared(NamedTuple):
    """What the work-items of a node have in local memory.

    Attributes
    ----------
    tail : array, shape (2, rows)
        The column that is eliminated below its pivot, zeros above; two of them in turn.
    head : array, shape (2,)
        The pivots.
    gram : array, shape (P, P + 1)
        What T is made of: products of V's columns above the diagonal, tau on it.
    """

    tail: Any
    head: Any
    gram: Any


@function
def eliminate(held: kl.Array, shared: Shared, turn: kl.Scalar, c: int, SHAPE: DenseShape) -> None:
    """Column `c` of the work-items whose turn it is: its reflector, applied to the columns after.

    Those before are columns of V by now; what would be subtracted from them is what T is made of.
    """
    lanes, lane, group = kl.local_size(0), kl.local_id(0), kl.local_id(1)
    P, COLS, ROWS, kind = SHAPE.panel, SHAPE.columns, held.shape[1], held.dtype
    column_here = turn * COLS + c
    slot = column_here % 2
    if group == turn:
        for r in kl.static_range(ROWS):
            at = r * lanes + lane
            shared.tail[slot, at] = kl.where(at > column_here, held[c, r], held[c, r] * 0)
            if at == column_here:
                shared.head[slot] = held[c, r]
    kl.barrier()
    below, sums, heads = kl.private(ROWS, kind), kl.private(COLS + 1, kind), kl.private(COLS, kind)
    multiply(held, shared.tail[slot], below, sums)
    own_row(held, heads, column_here, P, COLS)
    add_up(sums, COLS + 1)
    beta, tau, factor = reflector(shared.head[slot], sums[COLS])
    for r in kl.static_range(ROWS):
        below[r] = factor * below[r]
        if r * lanes < P:
            below[r] = kl.where(r * lanes + lane == column_here, kl.cast(1, kind), below[r])
    for k in kl.static_range(COLS):
        product = heads[k] + factor * sums[k]
        column = group * COLS + k
        if column < column_here and lane == 0:
            shared.gram[column, column_here] = product
        share = kl.where(column > column_here, tau * product, tau * 0)
        for r in kl.static_range(ROWS):
            held[k, r] = held[k, r] - share * below[r]
    if group == turn:
        put_reflector(held, below, beta, column_here, c, P)
        if lane == 0:
            shared.gram[column_here, column_here] = tau


@function
def multiply(held: kl.Array, tail: kl.Array, below: kl.Array, sums: kl.Array) -> None:
    """A work-item's part of the products of its columns with `tail`, and of that with itself.

    Its rows of `tail` are left in `below`; the last of the sums is the product with itself.
    """
    lanes, lane = kl.local_size(0), kl.local_id(0)
    COLS, ROWS = held.shape
    for i in kl.static_range(COLS + 1):
        sums[i] = 0
    for r in kl.static_range(ROWS):
        below[r] = tail[r * lanes + lane]
        sums[COLS] = sums[COLS] + below[r] * below[r]
        for k in kl.static_range(COLS):
            sums[k] = sums[k] + below[r] * held[k, r]


@function
def put_reflector(
    held: kl.Array, below: kl.Array, beta: kl.Scalar, value: kl.Scalar, c: int, P: int
) -> None:
    """Column `c` becomes what the reflector leaves of it, `beta`, and the reflector below that."""
    lanes, lane = kl.local_size(0), kl.local_id(0)
    for r in kl.static_range(held.shape[1]):
        if r * lanes < P:
            at = r * lanes + lane
            held[c, r] = kl.where(at > value, below[r], held[c, r])
            held[c, r] = kl.where(at == value, beta, held[c, r])
        else:
            held[c, r] = below[r]


@function
def own_row(held: kl.Array, heads: kl.Array, row: kl.Scalar, P: int, COLS: int) -> None:
    """The elements of row `row`, which one of the work-items side by side holds, for all."""
    lanes, lane = kl.local_size(0), kl.local_id(0)
    for k in kl.static_range(COLS):
        heads[k] = 0
        for r in kl.static_range(kl.cdiv(P, lanes)):
            if kl.sub_group_size() == lanes:
                x = kl.sub_group_shuffle(held[k, r], row % lanes)
                heads[k] = kl.where(row // lanes == r, x, heads[k])
            else:
                heads[k] = kl.where(r * lanes + lane == row, held[k, r], heads[k])
    if kl.sub_group_size() != lanes:
        add_up(heads, COLS)


@function
def add_up(sums: kl.Array, COUNT: int) -> None:
    """Sums over the work-items along dimension 0, for each of them."""
    lanes, lane, group = kl.local_size(0), kl.local_id(0), kl.local_id(1)
    if kl.sub_group_size() == lanes:
        add_up_neighbours(sums, tuple(i for i in range(COUNT)), lanes)
    elif lanes > 1:
        parts = kl.local((kl.local_size(1), COUNT, lanes + 1), sums.dtype)
        for i in kl.static_range(COUNT):
            parts[group, i, lane] = sums[i]
        kl.barrier()
        for i in range(lane, COUNT, lanes):
            total = parts[group, i, 0]
            for other in range(1, lanes):
                total = total + parts[group, i, other]
            parts[group, i, lanes] = total
        kl.barrier()
        for i in kl.static_range(COUNT):
            sums[i] = parts[group, i, lanes]


@function
def store_factor(t: kl.Array, gram: kl.Array, node: kl.Scalar, P: int) -> None:
    """The triangle T of ``Q = I - V T V^T`` from the products of V's columns, a row a work-item."""
    kind = gram.dtype
    for i in range(kl.local_linear_id(), P, kl.local_size(0) * kl.local_size(1)):
        made = kl.private(P, kind)
        for j in kl.static_range(P):
            total = kl.cast(0, kind)
            for k in kl.static_range(j):
                total = total + made[k] * gram[k, j]
            value = kl.where(i < j, -gram[j, j] * total, total * 0)
            made[j] = kl.where(i == j, gram[j, j], value)
            t[node, j, i] = made[j]


# -- a work-item alone: columns across the lanes of vectors ---------------------------------------


@function
def node_in_vectors(
    a: kl.Array, q: Reflectors, panel: Panel, node: Node, SHAPE: DenseShape
) -> None:
    """A node by one work-item; V is scaled only when it is stored."""
    P, LANES, kind = SHAPE.panel, SHAPE.lanes, a.dtype
    w = kl.local((SHAPE.fan * P, P), kind)
    made, factors = kl.private((P, P), kind), kl.private(P, kind)
    used = fetch(a, w, panel, node, SHAPE)
    steps = kl.minimum(panel.width, used)
    eliminate_single(w, made, factors, (steps, used), LANES)
    store_vectors(a, q.v, w, factors, panel, node, used, SHAPE)
    for j in range(P):
        for i in kl.static_range(0, P, LANES):
            value = kl.splat(kl.cast(0, kind), LANES)
            if j < steps:
                value = kl.vload(made, j, i, lanes=LANES)
            kl.vstore(q.t, node.index, j, i, value)


@function
def fetch(a: kl.Array, w: kl.Array, panel: Panel, node: Node, SHAPE: DenseShape) -> Any:
    """Fills `w` with the rows of a node, zeros beyond them; returns how many there are."""
    P = SHAPE.panel
    row, start, width = panel
    used = 0
    for chunk in range(SHAPE.fan):
        first = row + node.line(chunk, SHAPE)
        kl.copy(w[chunk * P : chunk * P + P, 0:P], a[first : first + P, start : start + P])
        used = kl.where(first < a.shape[0], chunk * P + kl.minimum(a.shape[0] - first, P), used)
    kl.barrier()
    for r in range(used):
        for c in range(width, P):
            w[r, c] = 0
    return used


@function
def store_vectors(
    a: kl.Array,
    v: kl.Array,
    w: kl.Array,
    factors: kl.Array,
    panel: Panel,
    node: Node,
    used: kl.Scalar,
    SHAPE: DenseShape,
) -> None:
    """Writes V, and the triangle into the first chunk of the node."""
    P, FAN, LANES = SHAPE.panel, SHAPE.fan, SHAPE.lanes
    row, start, width = panel
    first = row + node.line(0, SHAPE)
    target = node.index * SHAPE.height
    for r in range(kl.minimum(P, used)):
        for c in range(width):
            a[first + r, start + c] = kl.where(c < r, w[r, c] * 0, w[r, c])
    for r in range(FAN * P):
        for i in kl.static_range(P // LANES):
            below = kl.vload(w, r, i * LANES, lanes=LANES)
            kl.vstore(v, target + r, i * LANES, below * kl.vload(factors, i * LANES, lanes=LANES))
    for r in range(P):
        for c in range(r, P):
            v[target + r, c] = kl.where(c == r and r < kl.minimum(width, used), 1.0, 0.0)
