"""The special elimination: rows by eliminators, and by earlier rows that became such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portable import lang as kl
from portable import registry
from portable.backend import Device
from portable.errors import DataError, DeviceMismatchError, ShapeError
from portable.gf2.elimination import Elimination, Progress, find_leads, found_owners
from portable.gf2.layout import Order
from portable.gf2.matrix import BitMatrix
from portable.gf2.shared_out import eliminated_everywhere
from portable.gf2.tuning import shape_for
from portable.lang.launch.geometry import groups
from portable.parallel import Group, Member
from portable.parallel import group as group_of

_LINE: Final = 32


class Eliminated(NamedTuple):
    """The result of `eliminate`.

    Attributes
    ----------
    rows : BitMatrix
        The reduced rows, in their places.
    promoted : array of bool, shape (rows,)
        Whether each row was left with ones and became an eliminator; the others are empty.
    """

    rows: BitMatrix
    promoted: NDArray[np.bool_]


def eliminate(
    eliminators: BitMatrix,
    rows: BitMatrix,
    *,
    device: str | Device | None = None,
    out: BitMatrix | None = None,
    progress: Progress | None = None,
    group: Group | None = None,
    comm: Any = None,
) -> Eliminated:
    """The special Gaussian elimination that computing Groebner bases takes.

    Each row in order is reduced by the eliminator of its leading (highest) column for as long as
    there is one. One that is left becomes its column's eliminator for all later rows; one that
    vanishes stays as an empty row.

    Parameters
    ----------
    eliminators : BitMatrix, shape (k, n)
        No two of them with the same leading column, and none empty.
    rows : BitMatrix, shape (m, n)
        The rows to eliminate; not changed.
    device : str or Device, optional
        Where to work; where `rows` are, if left out.
    out : BitMatrix, shape (m, n), optional
        Takes the result, on the device that is worked on; it may be `rows`.
    progress : callable, optional
        Called with the part of the work that is done, from 0 to 1.
    group : portable.parallel.Group, optional
        Its members share the columns out, each on its device; the result is where the rows are. Of
        several processes each gives the same matrices and gets the whole result.
    comm : mpi4py.MPI.Comm, optional
        Its processes are such a group, each on the device of its matrices.

    Returns
    -------
    Eliminated
        The reduced rows and which were promoted, bit for bit as by the serial algorithm.

    Raises
    ------
    ShapeError
        If the numbers of columns differ, or `out` has another shape.
    DataError
        For an empty eliminator, or two with one leading column.
    DeviceMismatchError
        For matrices of different devices, unless `device` is given.
    ValueError
        For a `group` along with `device` or `comm`.

    Notes
    -----
    64 columns at a time, from the highest: pivots are chosen from these columns alone, and the rest
    follows by tables of combinations (`portable.gf2.elimination_kernels`). With tables of K rows
    that is about ``m n^2 / (2 * 64 K)`` additions of words, fewer as rows are sparse or vanish.

    Examples
    --------
    >>> from portable import gf2
    >>> known = gf2.BitMatrix.from_columns([[3, 1]], 4)
    >>> rows = gf2.BitMatrix.from_columns([[3, 0], [1], [0]], 4)
    >>> reduced, promoted = gf2.eliminate(known, rows)
    >>> reduced.to_columns(), promoted.tolist()
    ([[0, 1], [0], []], [True, True, False])
    """
    if group is not None and (comm is not None or device is not None):
        raise ValueError("eliminate takes one of group=, comm= with or without device=")
    eliminators, rows = _together(eliminators, rows, device)
    _check_out(out, rows)
    order = Order(rows.shape[1], backward=True)
    owners = checked_owners(eliminators, order)
    if 0 in rows.shape:
        return Eliminated(rows.copy() if out is None else out, np.zeros(rows.shape[0], np.bool_))
    if comm is not None:
        group = group_of(comm, device=rows.device)
    if group is not None:
        return _shared(group, eliminators, rows, owners, out, progress)
    work = Elimination.of(rows, order, eliminators=eliminators, owners=owners)
    work.run(progress)
    return Eliminated(work.matrix(out), work.promoted())


def _shared(
    group: Group,
    eliminators: BitMatrix,
    rows: BitMatrix,
    owners: Any,
    out: BitMatrix | None,
    progress: Progress | None,
) -> Eliminated:
    """The same by the members of a group; the result is where the rows are."""
    devices = group.devices
    index = devices.index(rows.device) if rows.device in devices else 0

    def work(member: Member) -> tuple[BitMatrix | None, NDArray[np.bool_]]:
        wanted = len(devices) == 1 or member.rank == index
        return eliminated_everywhere(member, eliminators, rows, owners, wanted, progress)

    result, promoted = group.run(work)[index]
    whole = result.to(rows.device)
    if out is not None:
        out.words[...] = whole.words
    return Eliminated(whole if out is None else out, promoted)


def leading_columns(matrix: BitMatrix) -> NDArray[np.int64]:
    """The highest column of each row, -1 of an empty one."""
    if 0 in matrix.shape:
        return np.full(matrix.shape[0], -1, np.int64)
    items = 1 if shape_for(matrix.device.capabilities).alone else _LINE
    with registry.use(matrix.device):
        leads = matrix.device.empty((matrix.shape[0],), kl.i32)
        find_leads[groups(matrix.shape[0]), items](matrix.words, leads)
        return matrix.device.to_numpy(leads).astype(np.int64)


def checked_owners(eliminators: BitMatrix, order: Order) -> Any:
    """The eliminator that leads at each place, on their device; errors as of `checked_leads`."""
    owners = found_owners(eliminators, order)
    if owners is None:
        checked_leads(eliminators)
    return owners


def checked_leads(
    eliminators: BitMatrix, named: Callable[[int], str] = "eliminator {}".format
) -> NDArray[np.int64]:
    """The leading columns of eliminators, after a look that there is one of each.

    `named` says what an eliminator is called, by its number from 0.

    Raises
    ------
    DataError
        For an empty eliminator, or two with one leading column.
    """
    leads = leading_columns(eliminators)
    one_lead_each(leads, named)
    return leads


def one_lead_each(leads: NDArray[np.int64], named: Callable[[int], str]) -> None:
    """Refuses leading columns of eliminators of which one is missing (-1), or there twice."""
    if leads.min(initial=0) < 0:
        empty = int(np.flatnonzero(leads < 0)[0])
        raise DataError(f"{named(empty)} is empty; leave empty ones out")
    counts = np.bincount(leads)
    if counts.max(initial=0) > 1:
        column = int(np.argmax(counts > 1))
        one, other = (named(int(i)) for i in np.flatnonzero(leads == column)[:2])
        raise DataError(
            f"{other}: its leading column is {column}, and so is that of {one}; a column has one "
            "eliminator at most, so give the other among the rows"
        )


def _together(
    eliminators: BitMatrix, rows: BitMatrix, device: str | Device | None
) -> tuple[BitMatrix, BitMatrix]:
    """Both on the device to work on."""
    if eliminators.shape[1] != rows.shape[1]:
        raise ShapeError(
            f"eliminate: the eliminators have {eliminators.shape[1]} columns, the rows "
            f"{rows.shape[1]}; both need the same"
        )
    if device is None and eliminators.device is not rows.device:
        raise DeviceMismatchError(
            f"eliminate: the eliminators are on {eliminators.device.name}, the rows on "
            f"{rows.device.name}; say device=, or move one with .to()"
        )
    target = rows.device if device is None else registry.device(device)
    return eliminators.to(target), rows.to(target)


def _check_out(out: BitMatrix | None, rows: BitMatrix) -> None:
    if out is None:
        return
    if out.shape != rows.shape:
        raise ShapeError(f"eliminate: out has shape {out.shape}, the result {rows.shape}")
    if out.device is not rows.device:
        raise DeviceMismatchError(
            f"eliminate: out is on {out.device.name}, the work on {rows.device.name}"
        )
