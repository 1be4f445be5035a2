"""What bounds work over GF(2) on a device: how fast it adds entries of tables."""

from typing import Any

import numpy as np

from portable.dtypes import uint64
from portable_bench.operation import Array, Case, Operation, Run, Sizes, Verifier, Work
from portable_bench.roof_launches import in_tables


class Lookup(Operation):
    """So many 10^9 additions of words that tables hold, in the memory where eliminations have them.

    Tables and work-items are laid out as `portable.gf2` lays them out on the device.
    """

    name = "lookup"
    axes = ("GWORD",)
    unit = "Gword"
    sizes = {"cpu": Sizes("1"), "gpu": Sizes("64")}
    dtypes = (uint64,)
    brief = False
    roof = "lookup"

    def work(self, case: Case) -> Work:
        return Work(1e9 * case.size[0], 0)

    def inputs(self, case: Case) -> tuple[Array, ...]:
        """The rows that tables combine."""
        random = np.random.default_rng(1)
        return (random.integers(0, 2**64, (64, 64), np.uint64),)

    def verifier(self, case: Case, rows: Any) -> Verifier:
        """Sums of entries, and the entry of the sum of their numbers, make nothing."""
        return lambda result: float("inf") if np.any(result) else 0.0

    def prepare(self, case: Case, rows: Any) -> Run:
        return in_tables(case, rows)
