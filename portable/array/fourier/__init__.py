"""Fourier transforms of rows, by kernels."""
