"""Running totals of any operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.backend import Capabilities
from portable.primitives.base.exchange import takes_other_libraries
from portable.primitives.base.operands import collapsed, normalized_axis, power_of_two
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.base.storage import Storage
from portable.primitives.elements import Elements, How, Scan, given_back, scan_elements
from portable.primitives.reducing import Totals, totals_of
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans.scanning import scanned

_COMMUTATIVE: Final = frozenset({kl.add, kl.multiply, kl.maximum, kl.minimum})
"""Operations whose totals may be made of every so many elements, as lanes of vectors make them."""
_GROUP: Final = 256
_AHEAD: Final = 8
_GROUPS_PER_UNIT: Final = 8
_SHORTEST: Final = 1 << 13
_MOST_TILES: Final = 32
"""Of a section: workgroups go from tile to tile in one chain of additions."""


@takes_other_libraries
def scan(
    x: Any,
    op: Any = kl.add,
    *,
    neutral: Any = None,
    each: Any = None,
    axis: int = -1,
    inclusive: bool = True,
    dtype: Any = None,
) -> Any:
    """Running totals along an axis by any associative operation.

    Parameters
    ----------
    x : array, or tuple or struct of arrays
        Of any library and shape; several arrays of one shape hold elements that are tuples or
        structs of a number from each.
    op : function
        Of two totals, the earlier one first, giving one of the same types: ``kl.add``, or any that
        kernels can call. It has to be associative and need not commute.
    neutral : number, tuple or struct of numbers
        As of `reduce`: the total of nothing.
    each : function, optional
        As of `reduce`: makes a total of an element.
    axis : int
        Along which.
    inclusive : bool
        Whether an element counts in its own total. If not, the first total is `neutral`.
    dtype : dtype, optional
        Of totals that are numbers; by default that of `x`.

    Returns
    -------
    array, or tuple or struct of arrays
        The totals, in the shape of `x`, on its device and of its library.

    Raises
    ------
    KernelError
        If `op` or `each` is not in the language, or gives other types than `neutral` has.

    Notes
    -----
    Numbers by ``kl.add``, ``kl.multiply``, ``kl.maximum`` and ``kl.minimum`` go the way of Merrill
    and Garland (2016), which reads and writes each element once, where workgroups may wait for
    others. Structs, and other operations, are read twice: sections are combined, their totals
    scanned, and the sections scanned from there (Blelloch 1990).

    Totals are combined in chains of bounded length, and these in turn, so that sums of
    floating-point numbers do not drift: the total up to the n-th is off by
    ``(80 + 4 log2(n)) eps`` of the sum of sizes up to there at most, for n up to 2^28.

    Examples
    --------
    A linear recurrence, ``y[i] = a[i] * y[i - 1] + b[i]``, is a scan of the steps' composition:

    >>> class Step(NamedTuple):
    ...     factor: Any
    ...     addend: Any
    >>> @pt.function
    ... def after(first, then):
    ...     return Step(first.factor * then.factor, then.factor * first.addend + then.addend)
    >>> y = primitives.scan(
    ...     Step(a, b), after, neutral=Step(1.0, 0.0)
    ... ).addend  # doctest: +SKIP
    """
    given = Elements.of("scan", x)
    dim = normalized_axis(axis, len(given.shape))
    totals = totals_of(given, op, neutral, each, dtype)
    sums = _scanned.run(given.arrays, totals, dim, bool(inclusive))
    return given_back(sums, totals.kind)


def _write_scan(
    arrays: tuple[Storage, ...], totals: Totals, axis: int, inclusive: bool
) -> Callable[..., Any]:
    """What `scan` has to do for arrays like these."""
    recipe = Recipe(*arrays)
    out = tuple(recipe.empty(arrays[0].shape, kind) for kind in totals.kinds)
    if out[0].size:
        source, target = _axis_last((*arrays, *out), axis, len(arrays))
        plain = totals.each is None and totals.op in _COMMUTATIVE
        merge = totals.merge(arrays[0]) if plain else None
        if merge is None:
            _by_elements(recipe, source, target, totals, inclusive)
        else:
            _by_vectors(recipe, source[0], target[0], merge, inclusive)
    return recipe.finish(*out)


def _axis_last(
    arrays: tuple[Storage, ...], axis: int, given: int
) -> tuple[tuple[Storage, ...], tuple[Storage, ...]]:
    """Views with the axis last and as few others as can be: of the first `given`, and the rest."""
    shape = arrays[0].shape
    others = [a for a in range(len(shape)) if a != axis]
    extents, steps = collapsed(
        tuple(shape[a] for a in others), [tuple(x.strides[a] for a in others) for x in arrays]
    )
    views = tuple(
        x.viewed((*extents, shape[axis]), (*step, x.strides[axis]))
        for x, step in zip(arrays, steps, strict=True)
    )
    return views[:given], views[given:]


def _by_vectors(recipe: Recipe, x: Storage, out: Storage, merge: Merge, inclusive: bool) -> None:
    if inclusive:
        scanned(recipe, x, out, merge, 0)
        return
    # One total fewer than elements is needed after the first one, which is that of nothing.
    size = (*x.shape[:-1], x.shape[-1] - 1)
    if size[-1]:
        scanned(recipe, x.viewed(size, x.strides), out, merge, 1)
    else:
        _by_elements(recipe, (x,), (out,), _plain(merge, out), inclusive)


def _plain(merge: Merge, out: Storage) -> Totals:
    neutral = out.dtype.numpy.type(merge.initial)
    return Totals(merge.op, None, None, neutral, None)


def _by_elements(
    recipe: Recipe,
    arrays: tuple[Storage, ...],
    out: tuple[Storage, ...],
    totals: Totals,
    inclusive: bool,
) -> None:
    """In one pass where a section is a row, else after the totals of the sections."""
    x = arrays[0]
    how, lead = totals.how(x.ndim - 1), x.shape[:-1]
    capabilities = x.device.capabilities
    ahead = 1 if capabilities.single_work_items else _AHEAD
    section, fields = _section(prod(lead), x.shape[-1], capabilities), (*arrays, *out)
    vectors = ahead > 1 and all(
        a.dtype.kind in "iuf" and a.strides[-1] == a.dtype.itemsize for a in fields
    )
    scan = Scan(section, ahead, vectors, inclusive)
    sections = -(-x.shape[-1] // scan.section)
    starts: tuple[Storage, ...] = ()
    if sections > 1:
        parts, starts = (
            tuple(recipe.empty((*lead, sections), kind) for kind in totals.kinds) for _ in range(2)
        )
        totals_alone = replace(scan, inclusive=True, totals=True)
        _launch(recipe, (arrays, (), totals.neutral, parts), how, totals_alone)
        again = Totals(totals.op, None, totals.kind, totals.neutral, totals.key)
        _by_elements(recipe, parts, starts, again, True)
    _launch(recipe, (arrays, starts, totals.neutral, out), how, scan)


def _launch(recipe: Recipe, args: tuple[Any, ...], how: How, scan: Scan) -> None:
    x = args[0][0]
    capabilities = x.device.capabilities
    group = 1 if capabilities.single_work_items else _width(x.shape[-1], scan.ahead, capabilities)
    groups = prod(x.shape[:-1]) * -(-x.shape[-1] // scan.section)
    recipe.launch(scan_elements, groups * group, group, *args, HOW=how, SCAN=scan)


def _width(length: int, ahead: int, capabilities: Capabilities) -> int:
    """Work-items for a row."""
    return min(_GROUP, capabilities.max_workgroup, power_of_two(-(-length // ahead)))


def _section(rows: int, length: int, capabilities: Capabilities) -> int:
    """Elements of a row for a workgroup: such that all compute units have work."""
    wanted = -(-capabilities.compute_units * _GROUPS_PER_UNIT // rows)
    section = max(power_of_two(-(-length // wanted)), _SHORTEST)
    if capabilities.single_work_items:
        return section
    return min(section, _MOST_TILES * _width(length, _AHEAD, capabilities) * _AHEAD)


_scanned: Final = Plans(_write_scan)
