"""LAPACK's routines as the benchmarks call them."""

from portable_bench.singular_values import bdsqr, gbbrd

__all__ = ["bdsqr", "gbbrd"]
