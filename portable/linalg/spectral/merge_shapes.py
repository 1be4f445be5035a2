"""What the kernels of divide and conquer share: how its steps lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class MergeShape:
    """What is merged, and by how many at once.

    Attributes
    ----------
    singular : bool
        Whether it is the singular value problem of a bidiagonal matrix, and not the eigenvalue
        problem of a tridiagonal one.
    lanes : int
        Roots, or poles, that a work-item takes side by side.
    team : int
        Neighbouring work-items that share sums over poles.
    """

    singular: bool
    lanes: int
    team: int = 1

    @property
    def unrolled(self) -> int:
        """How often loops over poles are: work-items that are many wait long for each load."""
        return 4 if self.team > 1 else 0


class Blocks(NamedTuple):
    """The decompositions of the diagonal blocks of matrices, each of h rows and columns.

    Attributes
    ----------
    values : array, shape (blocks, h)
        Eigenvalues, or singular values, the least first. Of bidiagonal blocks one less than h.
    right : array, shape (blocks, h, h), or (blocks, 2, h)
        Eigenvectors, or right singular vectors, as columns, or the first and the last elements of
        eigenvectors, where values alone are wanted. The last one of a bidiagonal block is
        what the block maps to 0: it has one column more than rows.
    left : array, shape (blocks, h, h), or None
        Left singular vectors; the last row and column are the identity's, for the row of the
        matrix that follows the block's and couples it with the next one.
    """

    values: Any
    right: Any
    left: Any


class Joined(NamedTuple):
    """The poles of merged blocks in order, with their weights and where their vectors are.

    Each of shape (merges, 2 h).
    """

    poles: Any
    weights: Any
    sources: Any


class Kept(NamedTuple):
    """What deflation leaves of merges, and what it removed.

    Attributes
    ----------
    poles, weights : array, shape (merges, 2 h)
        Of the secular equation, in order; the first ``counts[:, 0]`` are used.
    sources : array of i32, shape (merges, 2 h)
        The columns that belong to the poles.
    removed : array, shape (merges, 2 h)
        The values that were removed, ``counts[:, 1]`` of them.
    role : array of i32, shape (merges, 2 h)
        What became of a column: the number of its pole, or -1 less that of its removed value.
    pairs : array of i32, shape (merges, 2 h, 2)
        The columns that were rotated, ``counts[:, 2]`` times, in this order.
    turns : array, shape (merges, 2 h + 1, 2)
        Cosines and sines of these; in the last place those of the two columns that blocks map to 0.
    counts : array of i32, shape (merges, 3)
        How many.
    scales : array of i32, shape (merges,)
        The exponent field of the power of two that poles and weights were multiplied with;
        0 where the matrix is zero.
    """

    poles: Any
    weights: Any
    sources: Any
    removed: Any
    role: Any
    pairs: Any
    turns: Any
    counts: Any
    scales: Any


class Roots(NamedTuple):
    """The roots of secular equations, each the number of a pole and the distance from it.

    Attributes
    ----------
    origins : array of i32, shape (merges, 2 h)
        The pole that is next to the root.
    offsets : array, shape (merges, 2 h)
        How far from it the root is; of singular values, how far apart their squares are.
    values : array, shape (merges, 2 h)
        The roots.
    weights : array, shape (merges, 2 h)
        Those of which the computed roots are the exact ones.
    lengths : array, shape (merges, 2 h, 2)
        Of the right and left vectors that belong to the roots.
    places : array of i32, shape (merges, 2 h)
        Which value comes at each place: the number of a root, or -1 less that of a removed value.
    """

    origins: Any
    offsets: Any
    values: Any
    weights: Any
    lengths: Any
    places: Any
