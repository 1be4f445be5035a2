"""Long loops as loops over chunks of about as many rounds as there are chunks.

What a round begins with is kept while the chunk around it is gone through, and what a chunk begins
with for the whole loop: so memory grows with the square root of the number of rounds, for one more
run forwards (A. Griewank, "Achieving logarithmic growth of temporal and spatial complexity in
reverse automatic differentiation", 1992, with one level).
"""

from __future__ import annotations

from dataclasses import replace

from portable.dtypes import float32
from portable.gradients.adjoint.flatten import set_in
from portable.gradients.adjoint.names import Names
from portable.gradients.adjoint.rounds import Rounds, integer_type, trips
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.walks import map_block


def in_chunks(program: Kernel, names: Names) -> Kernel:
    """A flat program with those loops whose rounds hand something on in chunks."""
    return replace(program, body=map_block(program.body, lambda x: _chunked(x, names)))


def _chunked(x: s.Statement, names: Names) -> s.Block:
    if not isinstance(x, Rounds) or x.var is None or not set_in(x.body):
        return (x,)
    count = trips(x, lambda y: y)
    if count is None or x.bounds is None:
        return (x,)
    kind, loc = integer_type(count), x.loc
    one, nought = e.Const(1, kind), e.Const(0, kind)
    rounds, size, chunks, chunk, first, last, number = (
        names.variable(name, kind)
        for name in ("rounds", "size", "chunks", "chunk", "first", "last", "number")
    )
    root = e.Cast(e.Call("sqrt", (e.Cast(rounds, float32),), float32), kind)
    start, _, step = x.bounds
    steps = number if _is(step, 1) else e.Binary("mul", number, step)
    value = e.Binary("add", start, steps)
    number_here = value if kind is x.var.type else e.Cast(value, x.var.type)
    inner = Rounds(
        number, (first, last, one), None, (s.Let(x.var, number_here, loc), *x.body), loc, x.unroll
    )
    ahead = e.Binary("add", first, size)
    body: s.Block = (
        s.Let(first, e.Binary("mul", chunk, size), loc),
        s.Let(last, e.Select(e.Compare("lt", ahead, rounds), ahead, rounds), loc),
        inner,
    )
    up = e.Binary("sub", e.Binary("add", rounds, size), one)
    return (
        s.Let(rounds, count, loc),
        s.Let(size, e.Binary("add", root, one), loc),
        s.Let(chunks, e.Binary("floordiv", up, size, nonnegative=True), loc),
        Rounds(chunk, (nought, chunks, one), None, body, loc),
    )


def _is(x: e.Expression, number: int) -> bool:
    return isinstance(x, e.Const) and x.value == number
