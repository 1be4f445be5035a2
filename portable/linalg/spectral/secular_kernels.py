"""The kernels that solve secular equations.

The eigenvalues of a diagonal matrix with a change of rank one are the roots of
``1 + sum(w_j^2 / (p_j - x))``, one between each two of the poles p and one beyond the last; the
squares of the singular values of a diagonal matrix with a full row those of the same with the
poles' squares. A root is kept as its distance from the nearer pole, so that all differences are
accurate to the last digits (R.-C. Li, "Solving secular equations stably and efficiently", LAPACK
Working Note 89 (1993), whose middle way gives the steps here). The vectors are made of weights of
which the computed roots are the exact ones: so they are orthogonal, however close roots are (M. Gu,
S. Eisenstat, SIAM J. Matrix Anal. Appl. 15 (1994) and 16 (1995)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.magnitude import scaled_by
from portable.linalg.base.sums import lane_sum
from portable.linalg.spectral.merge_shapes import Kept, MergeShape, Roots
from portable.primitives.base.searching import partition_point

_ITERATIONS: Final = 80
_PATIENCE: Final = 8
"""Steps after which every second one halves the interval."""


_TOGETHER: Final = 32
"""Squares that are added up before they are added to the rest."""


@function
def distance(x: kl.Scalar, y: kl.Scalar, SHAPE: MergeShape) -> Any:
    """``x - y``, or of singular values ``x^2 - y^2``."""
    return (x - y) * (x + y) if SHAPE.singular else x - y


@function
def loaded(array: kl.Array, first: kl.Scalar, last: kl.Scalar, SHAPE: MergeShape) -> Any:
    """Elements from `first` on for the lanes; beyond `last` that one again."""
    scratch = kl.private(SHAPE.lanes, array.dtype)
    for lane in kl.range(SHAPE.lanes, unroll=1):
        scratch[lane] = array[kl.minimum(first + lane, last)]
    return kl.vload(scratch, 0, lanes=SHAPE.lanes)


@function
def counted(first: kl.Scalar, kind: Any, SHAPE: MergeShape) -> Any:
    """The numbers of the lanes, from `first` on."""
    scratch = kl.private(SHAPE.lanes, kind)
    for lane in kl.range(SHAPE.lanes, unroll=1):
        scratch[lane] = kl.cast(first + lane, kind)
    return kl.vload(scratch, 0, lanes=SHAPE.lanes)


@dataclass(frozen=True)
class Equation:
    """A secular equation.

    Attributes
    ----------
    poles, weights : array, shape (count or more,)
        The poles in order, and the roots of their weights.
    count : int
        How many there are.
    """

    poles: kl.Array
    weights: kl.Array
    count: kl.Scalar

    def sums(self, k: kl.Scalar, origin: kl.Scalar, t: kl.Scalar, SHAPE: MergeShape) -> Any:
        """At ``origin + t``: over poles up to the k-th and beyond it, each with its derivative."""
        kind = self.poles.dtype
        zero = kl.splat(kl.cast(0, kind), SHAPE.lanes)
        below, slope_below, above, slope_above = zero, zero, zero, zero
        for j in kl.range(member(SHAPE), self.count, SHAPE.team, unroll=SHAPE.unrolled):
            pole, weight = kl.splat(self.poles[j], SHAPE.lanes), self.weights[j]
            ratio = weight / (distance(pole, origin, SHAPE) - t)
            first = kl.splat(kl.cast(j, kind), SHAPE.lanes) <= k
            term, slope = weight * ratio, ratio * ratio
            below = below + kl.where(first, term, zero)
            slope_below = slope_below + kl.where(first, slope, zero)
            above = above + kl.where(first, zero, term)
            slope_above = slope_above + kl.where(first, zero, slope)
        if SHAPE.team > 1:
            sums = below, slope_below, above, slope_above
            return kl.workgroup_reduce(each_added, sums, width=SHAPE.team)
        return below, slope_below, above, slope_above

    def weight(self, SHAPE: MergeShape) -> Any:
        """The sum of all squared weights."""
        total = kl.cast(0, self.poles.dtype)
        for j in range(member(SHAPE), self.count, SHAPE.team):
            total = total + self.weights[j] * self.weights[j]
        return team_sum(total, SHAPE)


@dataclass(frozen=True)
class Gap:
    """What is between the poles around a root, a vector of a team's roots.

    Attributes
    ----------
    k : float
        The number of the pole below.
    last : bool
        Whether none is above.
    left, beyond : float
        The poles below and above.
    width : float
        Their distance; of the last root how far it may be from its pole.
    """

    k: kl.Scalar
    last: kl.Scalar
    left: kl.Scalar
    beyond: kl.Scalar
    width: kl.Scalar


@function
def member(SHAPE: MergeShape) -> Any:
    """The work-item's place in its team."""
    return kl.local_id(0) % SHAPE.team


@function
def first_number(SHAPE: MergeShape) -> Any:
    """The first root, or pole, of a team."""
    return kl.global_id(0) // SHAPE.team * SHAPE.lanes


@function
def each_added(x: tuple[kl.Scalar, ...], y: tuple[kl.Scalar, ...]) -> Any:
    """The sums of four numbers each."""
    return x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3]


@function
def team_sum(x: kl.Scalar, SHAPE: MergeShape) -> Any:
    """The sum over a team."""
    return kl.workgroup_reduce(kl.add, x, width=SHAPE.team) if SHAPE.team > 1 else x


@function
def multiplied(x: kl.Scalar, y: kl.Scalar) -> Any:
    """The product of two numbers."""
    return x * y


@function
def between(low: kl.Scalar, high: kl.Scalar) -> Any:
    """A number between two of one sign: near the smaller where they are far apart."""
    least = kl.minimum(kl.abs(low), kl.abs(high))
    most = kl.maximum(kl.abs(low), kl.abs(high))
    least = kl.maximum(least, most * 2.0**-40)
    size = kl.where(most > 8 * least, kl.sqrt(least) * kl.sqrt(most), (least + most) * 0.5)
    return kl.where(high > 0, size, -size)


@function
def first_step(
    f: kl.Scalar,
    weights: tuple[kl.Scalar, ...],
    gap: kl.Scalar,
    right: kl.Scalar,
) -> Any:
    """Where the equation with two poles alone has its root; `f` is in the middle of them.

    `weights` are those of both poles, and `right` tells whether the second one is the origin.
    """
    first, second = weights
    half = gap * 0.5
    c = f + first * first / half - second * second / half
    a = kl.where(right, -c * gap, c * gap) + first * first + second * second
    b = kl.where(right, -second * second * gap, first * first * gap)
    root = kl.sqrt(kl.abs(a * a - 4 * b * c))
    return kl.where(a > 0, 2 * b / (a + root), (a - root) / (2 * c))


@function
def next_step(
    f: kl.Scalar,
    slopes: tuple[kl.Scalar, ...],
    near: kl.Scalar,
    far: kl.Scalar,
    last: kl.Scalar,
) -> Any:
    """A step of the middle way; `near` and `far` are the distances of both poles."""
    below, above = slopes
    c = f - near * below - far * above
    a = (near + far) * f - near * far * (below + above)
    b = near * far * f
    root = kl.sqrt(kl.abs(a * a - 4 * b * c))
    step = kl.where(a > 0, 2 * b / (a + root), (a - root) / (2 * c))
    return kl.where(last, near * f / (f - near * below), step)


@function
def team_roots(kept: Kept, SHAPE: MergeShape) -> Any:
    """The merge, the number of a team's first root, and how many there are."""
    merge = kl.group_id(1)
    return merge, first_number(SHAPE), kl.workgroup_uniform(kept.counts[merge, 0])


@function
def has_roots(kept: Kept, SHAPE: MergeShape) -> Any:
    """Whether there are roots for a workgroup."""
    count = kl.workgroup_uniform(kept.counts[kl.group_id(1), 0])
    return kl.group_id(0) * kl.local_size(0) // SHAPE.team * SHAPE.lanes < count


@kernel
def solve_secular(kept: Kept, roots: Roots, *, SHAPE: MergeShape) -> None:
    """Finds the roots, `lanes` of them by each team; dimension 1 is the merges."""
    if has_roots(kept, SHAPE):
        solve_some(kept, roots, SHAPE)


@function
def solve_some(kept: Kept, roots: Roots, SHAPE: MergeShape) -> None:
    """The roots of a team."""
    merge, number, count = team_roots(kept, SHAPE)
    equation = Equation(kept.poles[merge], kept.weights[merge], count)
    gap = gap_of(equation, number, SHAPE)
    weights = [loaded(equation.weights, number + j, count - 1, SHAPE) for j in (0, 1)]
    width, zero = gap.width, kl.splat(kl.cast(0, equation.poles.dtype), SHAPE.lanes)
    below, _, above, _ = equation.sums(gap.k, gap.left, width * 0.5, SHAPE)
    f = 1 + below + above
    right = kl.where(gap.last, zero, f) < 0
    origin = kl.where(right, gap.beyond, gap.left)
    low, high = kl.where(right, -width * 0.5, zero), kl.where(right, zero, width * 0.5)
    high = kl.where(gap.last, width, high)
    t = first_step(f, weights, width, right)
    t = kl.where(gap.last, width * 0.5, t)
    t = kl.where(inside(t, low, high), t, between(low, high))
    t = narrowed(equation, gap, (right, origin), (low, high), t, SHAPE)
    value = kl.sqrt(kl.maximum(origin * origin + t, zero)) if SHAPE.singular else origin + t
    value = kl.maximum(value, gap.left)
    value = kl.where(gap.last, value, kl.minimum(value, gap.beyond))
    scratch = kl.private((3, SHAPE.lanes), equation.poles.dtype)
    kl.vstore(scratch, 0, 0, t)
    kl.vstore(scratch, 1, 0, value)
    kl.vstore(scratch, 2, 0, kl.where(right, gap.k + 1, gap.k))
    for lane in kl.range(SHAPE.lanes, unroll=1):
        if number + lane < count and member(SHAPE) == 0:
            roots.offsets[merge, number + lane] = scratch[0, lane]
            roots.values[merge, number + lane] = scratch[1, lane]
            roots.origins[merge, number + lane] = kl.cast(scratch[2, lane], kl.i32)


@function
def gap_of(equation: Equation, number: kl.Scalar, SHAPE: MergeShape) -> Any:
    """Between which poles the roots from `number` on lie."""
    poles, end = equation.poles, equation.count - 1
    final = kl.splat(kl.cast(end, poles.dtype), SHAPE.lanes)
    k = kl.minimum(counted(number, poles.dtype, SHAPE), final)
    last = k >= final
    total = kl.splat(equation.weight(SHAPE), SHAPE.lanes)
    left, beyond = loaded(poles, number, end, SHAPE), loaded(poles, number + 1, end, SHAPE)
    return Gap(k, last, left, beyond, kl.where(last, total, distance(beyond, left, SHAPE)))


@function
def narrowed(
    equation: Equation,
    gap: Gap,
    origins: tuple[kl.Scalar, ...],
    bounds: tuple[kl.Scalar, ...],
    start: kl.Scalar,
    SHAPE: MergeShape,
) -> Any:
    """The roots' distances from their origins, between bounds, from a first guess on.

    `origins` are whether each is the pole above, and where it is.
    """
    (right, origin), (low, high), t = origins, bounds, start
    EPS = 2.0**-23 if t.dtype == kl.f32 else 2.0**-52
    zero, one = (kl.splat(kl.cast(x, equation.poles.dtype), SHAPE.lanes) for x in (0, 1))
    going = one
    near, far = kl.where(right, -gap.width, zero), kl.where(right, zero, gap.width)
    for iteration in range(_ITERATIONS):
        if kl.workgroup_any(lane_sum(going) > 0):
            below, slope, above, other_slope = equation.sums(gap.k, origin, t, SHAPE)
            f = 1 + below + above
            low, high = kl.where(f < 0, t, low), kl.where(f < 0, high, t)
            error = 2 * EPS * (1 - below + above) + EPS * kl.abs(t) * (slope + other_slope)
            step = next_step(f, (slope, other_slope), near - t, far - t, gap.last)
            new = t + step
            halve = kl.splat(iteration >= _PATIENCE and iteration % 2 == 1, SHAPE.lanes)
            good = inside(new, low, high)
            new = kl.where(good, new, between(low, high))
            new = kl.where(halve, between(low, high), new)
            done = kl.abs(f) <= error
            small = kl.abs(new - t) <= EPS * kl.abs(t)
            t = kl.where(going > 0, kl.where(done, t, new), t)
            going = kl.where(done, zero, kl.where(small, zero, going))
    return t


@function
def inside(x: kl.Scalar, low: kl.Scalar, high: kl.Scalar) -> Any:
    """Whether a number, which may be NaN, lies between two others."""
    return kl.where(x > low, high - x, x * 0 - 1) > 0


@kernel
def refine_weights(kept: Kept, roots: Roots, *, SHAPE: MergeShape) -> None:
    """The weights of which the computed roots are the exact ones (K. Loewner's formula)."""
    if has_roots(kept, SHAPE):
        refine_some(kept, roots, SHAPE)


@function
def refine_some(kept: Kept, roots: Roots, SHAPE: MergeShape) -> None:
    """Those of a team."""
    merge, number, count = team_roots(kept, SHAPE)
    poles, kind = kept.poles[merge], kept.poles.dtype
    poles_held = loaded(poles, number, count - 1, SHAPE)
    i = counted(number, kind, SHAPE)
    product = kl.splat(kl.cast(1, kind), SHAPE.lanes)
    for j in kl.range(member(SHAPE), count - 1, SHAPE.team, unroll=SHAPE.unrolled):
        origin = kl.splat(poles[roots.origins[merge, j]], SHAPE.lanes)
        above = distance(poles_held, origin, SHAPE) - roots.offsets[merge, j]
        first = kl.splat(kl.cast(j, kind), SHAPE.lanes) < i
        pole = kl.where(first, kl.splat(poles[j], SHAPE.lanes), kl.splat(poles[j + 1], SHAPE.lanes))
        product = product * (above / distance(poles_held, pole, SHAPE))
    if SHAPE.team > 1:
        product = kl.workgroup_reduce(multiplied, product, width=SHAPE.team)
    origin = kl.splat(poles[roots.origins[merge, count - 1]], SHAPE.lanes)
    product = product * (roots.offsets[merge, count - 1] - distance(poles_held, origin, SHAPE))
    scratch = kl.private(SHAPE.lanes, kind)
    kl.vstore(scratch, 0, kl.sqrt(kl.abs(product)))
    for lane in kl.range(SHAPE.lanes, unroll=1):
        if number + lane < count and member(SHAPE) == 0:
            weight = kl.copysign(scratch[lane], kept.weights[merge, number + lane])
            roots.weights[merge, number + lane] = weight


@kernel
def place_roots(kept: Kept, roots: Roots, values: kl.Array, *, SHAPE: MergeShape) -> None:
    """The place of each value in order, and the lengths of the roots' vectors."""
    merge, number, count = team_roots(kept, SHAPE)
    removed, field = kl.workgroup_uniform(kept.counts[merge, 1]), kept.scales[merge]
    if has_roots(kept, SHAPE):
        measure_some(kept, roots, SHAPE)
    for lane in kl.range(SHAPE.lanes, unroll=1):
        k = kl.minimum(number + lane, count + removed - 1)
        root = k < count
        value = (
            roots.values[merge, kl.minimum(k, count - 1)] if count > 0 else kept.removed[merge, 0]
        )
        if not root:
            value = kept.removed[merge, k - count]
        rank = kl.cast(0, kl.i32)
        for other in range(member(SHAPE), removed, SHAPE.team):
            x = kept.removed[merge, other]
            same = x == value and (root or other < k - count)
            rank = rank + kl.where(x < value or same, 1, 0)
        rank = team_sum(rank, SHAPE)
        if number + lane < count + removed and member(SHAPE) == 0:
            rank = rank + (k if root else roots_below(roots.values[merge], count, value))
            roots.places[merge, rank] = kl.where(root, k, -1 - (k - count))
            values[merge, rank] = unscaled(value, field)


@function
def roots_below(values: kl.Array, count: kl.Scalar, x: kl.Scalar) -> Any:
    """How many of so many roots in order are less than a number."""
    return partition_point(kl.cast(0, kl.i32), count, lambda k: values[k] < x)


@function
def unscaled(x: kl.Scalar, field: kl.Scalar) -> Any:
    """A value as it was before scaling; 0 of a matrix that is zero."""
    return kl.where(field > 0, scaled_by(x, field, -1), x * 0)


@function
def measure_some(kept: Kept, roots: Roots, SHAPE: MergeShape) -> None:
    """One divided by the lengths of the vectors of a team's roots.

    Squares are added up some at a time: many small ones behind a large one would be lost.
    """
    merge, number, count = team_roots(kept, SHAPE)
    poles, kind = kept.poles[merge], kept.poles.dtype
    scratch = kl.private(SHAPE.lanes, kind)
    for lane in kl.range(SHAPE.lanes, unroll=1):
        scratch[lane] = poles[roots.origins[merge, kl.minimum(number + lane, count - 1)]]
    origin = kl.vload(scratch, 0, lanes=SHAPE.lanes)
    t = loaded(roots.offsets[merge], number, count - 1, SHAPE)
    zero = kl.splat(kl.cast(0, kind), SHAPE.lanes)
    right, left = zero, zero
    TOGETHER = _TOGETHER * SHAPE.team
    for first in range(0, count, TOGETHER):
        some, others = zero, zero
        end = kl.minimum(first + TOGETHER, count)
        for j in range(first + member(SHAPE), end, SHAPE.team):
            pole = kl.splat(poles[j], SHAPE.lanes)
            ratio = roots.weights[merge, j] / (distance(pole, origin, SHAPE) - t)
            some = some + ratio * ratio
            others = others + (pole * ratio) * (pole * ratio)
        right, left = right + some, left + others
    right, left = team_sum(right, SHAPE), 1 + team_sum(left, SHAPE)
    lengths = kl.private((2, SHAPE.lanes), kind)
    kl.vstore(lengths, 0, 0, 1 / kl.sqrt(right))
    kl.vstore(lengths, 1, 0, 1 / kl.sqrt(left))
    for lane in kl.range(SHAPE.lanes, unroll=1):
        if number + lane < count and member(SHAPE) == 0:
            roots.lengths[merge, number + lane, 0] = lengths[0, lane]
            roots.lengths[merge, number + lane, 1] = lengths[1, lane]
