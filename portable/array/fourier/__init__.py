"""Fourier transforms of rows, by kernels.

`one_axis` takes lines of any length: those whose prime factors have butterflies in passes over
memory (`passes`, cut up by `plan`), others by a chirp. A pass is a kernel for workgroups
(`kernels`) or for processors (`vector_kernels`), which reads and writes lines by `access`.
"""
