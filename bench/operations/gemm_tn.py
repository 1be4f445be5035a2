"""Matrix multiplication where the left factor is a transpose, beside the libraries' own."""

from portable_bench.operations.gemm_nt import GemmNt


class GemmTn(GemmNt):
    """``a @ b`` where `a` is the transpose of a K x M array with contiguous rows."""

    name = "gemm_tn"
    form = "tn"
