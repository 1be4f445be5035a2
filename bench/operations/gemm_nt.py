"""Matrix multiplication where the right factor is a transpose, beside the libraries' own."""

from portable_bench.operation import Case, Sizes, Ways
from portable_bench.operations.gemm import Gemm


class GemmNt(Gemm):
    """``a @ b`` where `b` is the transpose of an N x K array with contiguous rows."""

    name = "gemm_nt"
    form = "nt"
    brief = False
    sizes = {"cpu": Sizes("1024"), "gpu": Sizes("4096"), "simulator": Sizes("16")}

    def ladder(self, case: Case) -> Ways:
        """None: that of `Gemm` tells as much."""
        return {}
