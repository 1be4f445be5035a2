"""Singular values, from the matrix to the numbers.

`svdvals` goes one of three ways: by rotations (`jacobi_kernels`), straight to two diagonals
(`direct_kernels`), or by a band (`portable.linalg.dense` and `portable.linalg.bands`). `bidiagonal`
finds the values of two diagonals.
"""
