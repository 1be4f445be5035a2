"""LAPACK's routines as the benchmarks call them."""

from portable_bench.lapack import bdsqr, gbbrd

__all__ = ["bdsqr", "gbbrd"]
