"""Decompositions by singular values and eigenvalues, with vectors.

`decompositions` has what is called, and chooses: small matrices go by rotations (`rotations`, many
of doubles `one_sided`), others in `stages`. These are a reduction to two diagonals (`reductions`,
or by a band, `banded` and `symmetric_panels`), divide and conquer (`divide` with `merge_kernels`
and `secular_kernels`), and the way back to vectors (`reflections`, `hop_blocks`). `by_values` and
`least_squares` use results; `bidiagonal_svd` finds values of any size to high relative accuracy.
"""
