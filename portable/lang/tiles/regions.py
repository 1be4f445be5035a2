"""Elements of regions: where they lie, whether inside their array; vectors of them are stored."""

from __future__ import annotations

from collections.abc import Sequence

from portable.dtypes import DType
from portable.lang.ir import expressions as e
from portable.lang.ir.nodes import both
from portable.lang.ir.types import Vector, scalar_of
from portable.lang.tiles.lanes import divided, remainder
from portable.lang.tiles.strategy import kept_dims
from portable.lang.tiles.work import Code, add


def store_neighbours(
    code: Code,
    target: e.Region,
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
    target: e.Region,
    places: Sequence[tuple[e.Expression, ...]],
    values: Sequence[e.Expression],
) -> None:
    for index, value in zip(places, values, strict=True):
        with code.when(inside(target, index)):
            code.store(target.array, index, value)


def place(region: e.Region, row: e.Expression, column: e.Expression) -> tuple[e.Expression, ...]:
    """The index into its array of an element of a region.

    Parameters
    ----------
    region : Region
        Of two dimensions, or of more of which all but the last are counted as one.
    row, column : Expression
        Of the element in it.
    """
    index = [*region.starts]
    for dim, offset in zip(kept_dims(region), _offsets(region, row, column), strict=True):
        index[dim] = add(index[dim], offset)
    return tuple(index)


def _offsets(region: e.Region, row: e.Expression, column: e.Expression) -> list[e.Expression]:
    """The distances from the start along each dimension."""
    if not region.joined:
        return [row, column]
    offsets = [column]
    *outer, _ = (extent for extent in region.extents if extent is not None)
    for extent in reversed(outer[1:]):
        offsets.insert(0, remainder(row, extent))
        row = divided(row, extent)
    return [row, *offsets]


def inside(region: e.Region, index: tuple[e.Expression, ...]) -> e.Expression | None:
    """Whether an index that `place` gave is one of a global array's; None where it always is."""
    if region.array.space != "global":
        return None
    conditions: list[e.Expression] = []
    for dim, x in enumerate(index):
        assert isinstance(x.type, DType)
        if not (isinstance(x, e.Const) and x.value >= 0):
            conditions.append(e.Compare("ge", x, e.Const(0, x.type)))
        conditions.append(e.Compare("lt", x, e.Extent(region.array, dim, x.type)))
    return both(*conditions)
