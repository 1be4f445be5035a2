"""Factorisations of matrices, and what is solved by them: Cholesky, LU and QR.

Matrices are worked on in place, in rows that begin where vectors may, all of a batch at once: a
kernel factors a diagonal block or a panel, one workgroup for each matrix, others solve with it, a
strip of columns each, and what is left of a matrix is changed by products (`portable.linalg.gemm`).
"""
