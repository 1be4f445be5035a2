"""Singular values and vectors of bidiagonal matrices, however small, to high relative accuracy.

QR iterations, without a shift where one would spoil small values, as in LAPACK's ?bdsqr: J. Demmel,
W. Kahan, "Accurate singular values of bidiagonal matrices", SIAM J. Sci. Stat. Comput. 11 (1990).
Each workgroup has some elements of all vectors to itself, and makes all rotations of the matrix
once more for them: by one work-item, as many as local memory has room for, then all apply these.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.interchange.libraries import takes_other_libraries
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.base.magnitude import largest_magnitude, power_bits, require_finite, scaled_by
from portable.linalg.base.operands import common_dtype
from portable.linalg.singular_values.bidiagonal import checked_length, pivots_target
from portable.linalg.spectral.decompositions import SVDResult
from portable.namespace import device_of_arrays
from portable.typing import ArrayT

_DTYPES: Final = (kl.f16, kl.f32, kl.f64)
_CHUNK: Final = 64
"""Rotations of each side that local memory has room for."""

_ITEMS: Final = 64
_SWEEPS: Final = 30
"""Sweeps for each value, at most: some two are usual."""


@kernel
def iterate_bidiagonal(
    d: kl.Array,
    e: kl.Array | None,
    largest: kl.Array,
    work: kl.Array,
    vectors: kl.Array,
    unfinished: kl.Array,
    *,
    LANES: int,
    SHARE: int,
) -> None:
    """Makes a bidiagonal matrix diagonal; a workgroup has `SHARE` elements of each vector.

    Parameters
    ----------
    d, e : array
        The diagonal and what is above it, which is None of one row.
    largest : array, shape (1,)
        The largest magnitude.
    work : array, shape (workgroups, 2, n)
        The scaled diagonal, and above each of its elements what is in its column.
    vectors : array, shape (2, n, pitch)
        Become left and right singular vectors as rows.
    unfinished : array of i32, shape (1,)
        Rows that are not diagonal after so many sweeps.
    """
    n, kind, begin = d.shape[0], work.dtype, kl.group_id(0) * SHARE
    on, off = work[kl.group_id(0), 0], work[kl.group_id(0), 1]
    field = power_bits(largest[0], pivots_target(kind))
    for i in kl.workgroup_range(n):
        on[i] = scaled_by(kl.cast(d[i], kind), field, 1)
        off[i] = 0
        if e is not None and i > 0:
            off[i] = scaled_by(kl.cast(e[i - 1], kind), field, 1)
    for number in kl.workgroup_range(2 * n * SHARE):
        side, row, column = number // (n * SHARE), number // SHARE % n, begin + number % SHARE
        vectors[side, row, column] = kl.where(row == column, kl.cast(1, kind), 0)
    place, carry = kl.local(3, kl.i32), kl.local(4, kind)
    turns = kl.local((2, _CHUNK, 2), kind)
    kl.barrier()
    if kl.local_id(0) == 0:
        place[0], place[1], place[2] = n, n - 1, 0
    sweep, going = 0, n > 1
    while going:
        if kl.local_id(0) == 0:
            carry[3] = find_block(on, off, place)
        kl.barrier()
        first, last = kl.workgroup_uniform(place[0]), kl.workgroup_uniform(place[1])
        flipped, shift = kl.workgroup_uniform(place[2]), kl.workgroup_uniform(carry[3])
        block, width = (first, last, flipped != 0), kl.where(shift < 0, 0, last - first)
        for start in range(0, width, _CHUNK):
            steps = start, kl.minimum(start + _CHUNK, width)
            if kl.local_id(0) == 0:
                if shift > 0:
                    shifted_steps(on, off, block, steps, shift, carry, turns)
                else:
                    plain_steps(on, off, block, steps, carry, turns)
            kl.barrier()
            for r in range(kl.local_id(0) * LANES, SHARE, kl.local_size(0) * LANES):
                for side in kl.static_range(2):
                    lines = vectors[kl.where(block[2], side, 1 - side)]
                    apply_turns(lines, turns[side], block, steps, begin + r, LANES)
            kl.barrier()
        sweep = sweep + 1
        going = last > 0 and sweep < _SWEEPS * n
    if kl.local_id(0) == 0 and kl.group_id(0) == 0:
        unfinished[0] = kl.where(n > 1, place[1], 0)


@function
def at(block: tuple[Any, ...], k: kl.Scalar) -> Any:
    """The k-th row of a block, from its end if it is flipped."""
    first, last, flipped = block
    return kl.where(flipped, last - k, first + k)


@function
def above(block: tuple[Any, ...], k: kl.Scalar) -> Any:
    """Where the element is that couples the k-th row of a block with the next."""
    first, last, flipped = block
    return kl.where(flipped, last - k, first + k + 1)


@function
def tolerance(kind: Any) -> float:
    """What counts as nothing beside a value."""
    return 10 * 2.0**-24 if kind == kl.f32 else 98 * 2.0**-53


@function
def find_block(on: kl.Array, off: kl.Array, place: kl.Array) -> Any:
    """The last block that is not diagonal, and its shift; -1 if it is to be looked for again.

    Sweeps go from the larger end of a block to the smaller one, always the same way.
    """
    LEAST = 2.0**-120 if on.dtype == kl.f32 else 2.0**-1000
    before, last = (place[0], place[1]), place[1]
    while last > 0 and kl.abs(off[last]) <= LEAST:
        last = last - 1
    first = last
    while first > 0 and kl.abs(off[first]) > LEAST:
        first = first - 1
    off[first] = 0
    if last < before[0] or first > before[1]:
        place[2] = kl.where(kl.abs(on[first]) < kl.abs(on[last]), 1, 0)
    place[0], place[1] = first, last
    block = (first, last, place[2] != 0)
    shift = kl.cast(-1, on.dtype)
    if last > first:
        smallest, largest = settled(on, off, block)
        if smallest >= 0:
            shift = shift_of(on, off, block, smallest / largest)
    return shift


@function
def settled(on: kl.Array, off: kl.Array, block: tuple[Any, ...]) -> Any:
    """Puts zeros where they spoil no value; else gives a bound of the smallest, and the largest.

    The bound is -1 where there is a zero now.
    """
    first, last, _ = block
    TOLERANCE, below, changed = tolerance(on.dtype), kl.abs(on[at(block, 0)]), False
    smallest, largest = below, below
    for k in range(last - first):
        beside, alone = kl.abs(off[above(block, k)]), kl.abs(on[at(block, k + 1)])
        most = kl.where(k == last - first - 1, kl.maximum(below, alone), below)
        if beside <= TOLERANCE * most:
            off[above(block, k)] = 0
            changed = True
        largest = kl.maximum(largest, kl.maximum(alone, beside))
        below = kl.where(below > 0, alone * (below / (below + beside)), below)
        smallest = kl.minimum(smallest, below)
    return kl.where(changed, -1, smallest), largest


@function
def shift_of(on: kl.Array, off: kl.Array, block: tuple[Any, ...], ratio: kl.Scalar) -> Any:
    """The smaller singular value of the last two rows, or 0 where that would spoil small values."""
    (first, last, _), kind = block, on.dtype
    EPS, TOLERANCE, k = 2.0**-24 if kind == kl.f32 else 2.0**-53, tolerance(kind), last - first
    f, h = kl.abs(on[at(block, k - 1)]), kl.abs(on[at(block, k)])
    g, head = off[above(block, k - 1)], kl.abs(on[at(block, 0)])
    shift = f * h / ((kl.hypot(f + h, g) + kl.hypot(f - h, g)) * 0.5)
    least = kl.cast(on.shape[0], kind) * TOLERANCE * ratio
    spoils = least <= 0.01 * TOLERANCE or least <= EPS or shift * shift < EPS * head * head
    return kl.where(spoils, 0, shift)


@function
def rotation(f: kl.Scalar, g: kl.Scalar) -> Any:
    """The cosine and sine of the rotation that makes (f, g) (r, 0), and r."""
    r = kl.hypot(f, g)
    by = kl.where(r > 0, r, 1)
    return kl.where(r > 0, f / by, 1), g / by, r


@function
def plain_steps(on: Any, off: Any, block: Any, steps: Any, carry: Any, turns: Any) -> None:
    """Some steps of a sweep without a shift, which spoils no value; `carry` is for further ones."""
    (first, last, _), (start, stop) = block, steps
    if start == 0:
        carry[0], carry[1], carry[2] = 1, 1, 0
    cosine, left_cosine, left_sine = carry[0], carry[1], carry[2]
    for k in range(start, stop):
        cosine, sine, r = rotation(on[at(block, k)] * cosine, off[above(block, k)])
        if k > 0:
            off[above(block, k - 1)] = left_sine * r
        turns[0, k - start, 0], turns[0, k - start, 1] = cosine, sine
        left_cosine, left_sine, r = rotation(left_cosine * r, on[at(block, k + 1)] * sine)
        on[at(block, k)] = r
        turns[1, k - start, 0], turns[1, k - start, 1] = left_cosine, left_sine
    carry[0], carry[1], carry[2] = cosine, left_cosine, left_sine
    if stop == last - first:
        rest = on[at(block, stop)] * cosine
        on[at(block, stop)] = rest * left_cosine
        off[above(block, stop - 1)] = rest * left_sine


@function
def shifted_steps(
    on: Any, off: Any, block: Any, steps: Any, shift: kl.Scalar, carry: Any, turns: Any
) -> None:
    """Some steps of a sweep with a shift; `carry` is for the next ones."""
    (first, last, _), (start, stop) = block, steps
    if start == 0:
        head = on[at(block, 0)]
        carry[0] = (kl.abs(head) - shift) * (kl.copysign(shift * 0 + 1, head) + shift / head)
        carry[1] = off[above(block, 0)]
    f, g = carry[0], carry[1]
    for k in range(start, stop):
        i, j, beside = at(block, k), at(block, k + 1), above(block, k)
        c, s, r = rotation(f, g)
        if k > 0:
            off[above(block, k - 1)] = r
        turns[0, k - start, 0], turns[0, k - start, 1] = c, s
        x, y, z = on[i], off[beside], on[j]
        f, y, g, z = c * x + s * y, c * y - s * x, s * z, c * z
        c, s, r = rotation(f, g)
        turns[1, k - start, 0], turns[1, k - start, 1] = c, s
        on[i], f, on[j] = r, c * y + s * z, c * z - s * y
        off[beside] = f
        if k + 1 < last - first:
            following = off[above(block, k + 1)]
            g, off[above(block, k + 1)] = s * following, c * following
    carry[0], carry[1] = f, g


@function
def apply_turns(
    lines: kl.Array, turns: kl.Array, block: Any, steps: Any, r: kl.Scalar, LANES: int
) -> None:
    """Applies rotations of neighbouring vectors to `LANES` of their elements."""
    start, stop = steps
    x = kl.vload(lines, at(block, start), r, lanes=LANES)
    for k in range(start, stop):
        y = kl.vload(lines, at(block, k + 1), r, lanes=LANES)
        c, s = turns[k - start, 0], turns[k - start, 1]
        kl.vstore(lines, at(block, k), r, c * x + s * y)
        x = c * y - s * x
    kl.vstore(lines, at(block, stop), r, x)


@kernel
def sort_vectors(
    work: kl.Array, largest: kl.Array, vectors: kl.Array,
    values: kl.Array, left: kl.Array, right: kl.Array,
) -> None:  # fmt: skip
    """Puts a value, and its vectors, where it is in order; a workgroup for each."""
    i, n = kl.group_id(0), work.shape[2]
    x, rank = work[0, 0, i], kl.cast(0, kl.i32)
    for j in kl.workgroup_range(n):
        other = kl.abs(work[0, 0, j])
        if other > kl.abs(x) or (other == kl.abs(x) and j < i):
            rank = rank + 1
    rank = kl.workgroup_reduce(kl.add, rank)
    field = power_bits(largest[0], pivots_target(work.dtype))
    if kl.local_id(0) == 0:
        values[rank] = scaled_by(kl.abs(x), field, -1)
    for r in kl.workgroup_range(n):
        left[r, rank] = vectors[0, i, r]
        right[rank, r] = kl.where(x < 0, -vectors[1, i, r], vectors[1, i, r])


@takes_other_libraries
def bidiagonal_svd(d: ArrayT, e: ArrayT, *, check_finite: bool = True) -> SVDResult:
    """Singular values and vectors of an upper bidiagonal matrix, to high relative accuracy.

    Parameters
    ----------
    d : array, shape (n,)
        The diagonal; ``float16``, ``float32`` or ``float64``.
    e : array, shape (n - 1,)
        The diagonal above it; of the same dtype and device. Of shape (0,) if n is 0.
    check_finite : bool
        Whether to look for NaN and infinities, which reads one number from the device.

    Returns
    -------
    U : array, shape (n, n)
        Left singular vectors as columns, on the device of `d`; ``float32`` for ``float16``.
    S : array, shape (n,)
        Singular values, the largest first, as accurate as those of `bidiagonal_svdvals`.
    Vh : array, shape (n, n)
        Right singular vectors as rows. What is wrong in a pair of vectors is a modest multiple of
        the unit roundoff over the relative distance of its value from the others.

    Raises
    ------
    ShapeError
        Unless `d` and `e` are vectors of fitting lengths.
    DTypeError
        For mixed or other dtypes.
    ValueError
        For NaN or infinities.
    numpy.linalg.LinAlgError
        If iterations do not end, which is read from the device when all is done.

    Notes
    -----
    Implicit QR iterations, without a shift where small values ask for it, as in LAPACK's ?bdsqr: J.
    Demmel, W. Kahan, "Accurate singular values of bidiagonal matrices", SIAM J. Sci. Stat. Comput.
    11 (1990). Some ``12 n^3`` operations, and some ``2 n^2`` rotations one after the other: `svd`
    takes a small part of the time, and is as accurate beside the largest value.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> d, e = np.array([1.0, 1e-200]), np.array([1e-100])
    >>> portable.linalg.bidiagonal_svd(d, e).S
    array([1.e+000, 1.e-200])
    """
    device = device_of_arrays(d, e)
    kind = common_dtype("bidiagonal_svd", _DTYPES, d=d, e=e).register
    n, can = checked_length("bidiagonal_svd", d, e), device.capabilities
    left, values, right = (device.empty(shape, kind) for shape in ((n, n), (n,), (n, n)))
    if n == 0:
        return SVDResult(left, values, right)
    largest = largest_magnitude(device, *((d, e) if n > 1 else (d,)))
    if check_finite:
        require_finite(device, largest, "bidiagonal_svd")
    lanes, items, parts = 1, min(_ITEMS, can.max_workgroup), -(-n // _ITEMS)
    if can.single_work_items:
        lanes, items, parts = max(1, can.vector_bytes // kind.itemsize), 1, can.compute_units
    share = lanes * -(-n // (lanes * parts))
    work = device.empty((parts, 2, n), kind)
    vectors = device.empty((2, n, parts * share), kind)
    unfinished = device.empty((1,), kl.i32)
    iterate_bidiagonal[groups(parts), items](
        d, e if n > 1 else None, largest, work, vectors, unfinished, LANES=lanes, SHARE=share
    )
    sort_vectors[groups(n), items](work, largest, vectors, values, left, right)
    if int(device.to_numpy(unfinished)[0]):
        raise np.linalg.LinAlgError("bidiagonal_svd did not converge")
    return SVDResult(left, values, right)
