"""The matrices of Winograd's minimal filtering, from interpolation points by exact arithmetic.

For F(m, r), m results of a filter of r taps from ``m + r - 1`` inputs, the results are ``A^T ((G g)
* (B^T d))``: the algorithm of Toom and Cook for the product of polynomials, transposed. See S.
Winograd, "Arithmetic complexity of computations" (1980), and A. Lavin, S. Gray, "Fast algorithms
for convolutional neural networks", CVPR 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import prod
from typing import Final

Rows = tuple[tuple[tuple[int, float], ...], ...]
_Exact = list[list[Fraction]]

POINTS: Final = {
    3: ("0", "1"),
    4: ("0", "1", "-1"),
    5: ("0", "-1", "1/2", "2"),
    6: ("0", "3/4", "-3/4", "3/2", "-3/2"),
    7: ("0", "1", "-1", "2", "-2", "1/2"),
    8: ("0", "1", "-1", "2", "-2", "1/2", "-1/2"),
}
"""By the inputs of a tile, beside infinity.

Of unit-normal numbers the largest errors of F(2) to F(6) of three taps with these are 0.4, 1.4,
1.8, 8 and 9 times those of direct sums, of F(2) to F(4) of five taps 0.9, 3.8 and 3.6, of F(2) of
seven 2.4; with 0, 1, -1, 2, -2 those of F(4) of three taps are 6.6 times as large.

See B. Barabasz, A. Anderson, K. Soodhalter, D. Gregg, "Error analysis and improving the accuracy of
Winograd convolution for deep neural networks", ACM TOMS 46 (2020).
"""


@dataclass(frozen=True, slots=True)
class Transforms:
    """What one dimension of a tile is multiplied by; both dimensions use the same.

    Attributes
    ----------
    results : int
        m, the results of a tile along a dimension.
    inputs : int
        ``m + r - 1``, what they are made of.
    filter, input, output : tuple of rows
        G (inputs, r), B^T (inputs, inputs) and A^T (m, inputs); a row holds pairs of a column and
        a number that is not zero.
    """

    results: int
    inputs: int
    filter: Rows
    input: Rows
    output: Rows

    @property
    def taps(self) -> int:
        """r, of the filter."""
        return self.inputs - self.results + 1

    @property
    def growth(self) -> float:
        """How much rounding errors of a tile in two dimensions grow at most.

        The largest sum of magnitudes along all ways from inputs and taps to a result, squared:
        products of numbers of at most one then have errors of at most as many roundoffs for each
        channel and each of the additions on the way.
        """
        weights = [
            sum(abs(x) for _, x in g) * sum(abs(x) for _, x in b)
            for g, b in zip(self.filter, self.input, strict=True)
        ]
        return max(sum(abs(x) * weights[k] for k, x in row) for row in self.output) ** 2

    @property
    def filter_turned(self) -> Rows:
        """G^T (r, inputs)."""
        return _turned(self.filter)

    @property
    def output_turned(self) -> Rows:
        """A (inputs, m)."""
        return _turned(self.output)


def _turned(rows: Rows) -> Rows:
    """The transpose."""
    columns = 1 + max(k for row in rows for k, _ in row)
    return tuple(
        tuple((i, x) for i, row in enumerate(rows) for k, x in row if k == column)
        for column in range(columns)
    )


@cache
def transforms(results: int, taps: int) -> Transforms:
    """The matrices of F(results, taps).

    Raises
    ------
    ValueError
        If there are no `POINTS` for them.
    """
    inputs = results + taps - 1
    points = tuple(map(Fraction, POINTS.get(inputs, ())))
    if inputs - 1 != len(points):
        raise ValueError(f"F({results}, {taps}) takes {inputs - 1} points; there are {len(points)}")
    return Transforms(
        results,
        inputs,
        _numbers(_filter(points, taps)),
        _numbers(_input(points)),
        _numbers(_output(points, results)),
    )


def _filter(points: tuple[Fraction, ...], taps: int) -> _Exact:
    """A filter's values at the points, each over the point's distance to the others."""
    rows = [
        [p**k / prod((p - q for q in points if q != p), start=Fraction(1)) for k in range(taps)]
        for p in points
    ]
    return [*rows, _at_infinity(taps)]


def _output(points: tuple[Fraction, ...], results: int) -> _Exact:
    """Powers of the points, a column each."""
    last = _at_infinity(results)
    return [[*(p**i for p in points), last[i]] for i in range(results)]


def _input(points: tuple[Fraction, ...]) -> _Exact:
    """Coefficients of the polynomials that vanish at all points but one, and at all."""
    rows = [_vanishing([q for q in points if q != p]) for p in points]
    return [*([*row, Fraction(0)] for row in rows), _vanishing(list(points))]


def _vanishing(points: list[Fraction]) -> list[Fraction]:
    """Coefficients of the product of ``x - p``, the constant one first."""
    coefficients = [Fraction(1)]
    for p in points:
        higher, lower = [Fraction(0), *coefficients], [*coefficients, Fraction(0)]
        coefficients = [h - p * c for h, c in zip(higher, lower, strict=True)]
    return coefficients


def _at_infinity(length: int) -> list[Fraction]:
    return [Fraction(0)] * (length - 1) + [Fraction(1)]


def _numbers(matrix: _Exact) -> Rows:
    return tuple(tuple((k, float(x)) for k, x in enumerate(row) if x) for row in matrix)
