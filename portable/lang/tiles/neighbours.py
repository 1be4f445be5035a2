"""Writes neighbours in a row of a region at once."""

from __future__ import annotations

from collections.abc import Sequence

from portable.lang.ir import expressions as e
from portable.lang.ir.types import Region, Vector, scalar_of
from portable.lang.tiles.parts import kept_dims
from portable.lang.tiles.regions import inside, place
from portable.lang.tiles.work import Code, add, both


def store_neighbours(
    code: Code,
    target: Region,
    row: e.Expression,
    column: e.Expression,
    values: Sequence[e.Expression],
) -> None:
    """Writes a vector from an element on; one by one where a global array begins or ends in it.

    Parameters
    ----------
    code : Code
        Where to write it.
    target : Region
        Of two dimensions; the columns are its last.
    row, column : Expression
        Of the first element in it, which need not lie inside the array.
    values : sequence of Expression
        The elements, of one type.
    """
    array, axis = target.array, kept_dims(target)[-1]
    places = [place(target, row, add(column, number)) for number in range(len(values))]
    if len(values) == 1:
        _one_by_one(code, target, places, values)
        return
    kind = Vector(scalar_of(values[0].type), len(values))
    whole = both(inside(target, places[0]), inside(target, places[-1]))
    with code.when(whole):
        code.store(array, places[0], e.MakeVector(tuple(values), kind), axis)
    if whole is not None:
        with code.otherwise():
            _one_by_one(code, target, places, values)


def _one_by_one(
    code: Code,
    target: Region,
    places: Sequence[tuple[e.Expression, ...]],
    values: Sequence[e.Expression],
) -> None:
    for index, value in zip(places, values, strict=True):
        with code.when(inside(target, index)):
            code.store(target.array, index, value)
