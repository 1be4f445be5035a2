"""What operations over GF(2) have in common: how they are counted, and who else does them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import count
from typing import Any, ClassVar, Final

import numpy as np

from portable.dtypes import uint64
from portable.gf2.tuning import shape_for
from portable_bench import m4ri
from portable_bench.operation import Array, Case, Contender, Operation, Prepare, Run, Sizes, Work
from portable_bench.peers import Peers

_WORD: Final = 64


class Gf2(Operation):
    """An operation on bits, whose work is additions of words from tables."""

    dtypes = (uint64,)
    brief = False
    roof = "lookup"

    @abstractmethod
    def changes(self, *size: int) -> float:
        """Words that are changed, each by an entry of every table."""

    def work(self, case: Case) -> Work:
        """With as many tables as the device is given; operands and result are small beside them."""
        tables = shape_for(case.device.capabilities).tables
        return Work(self.changes(*case.size) * tables, 0)


class Gf2Squares(Gf2):
    """One on random squares."""

    axes = ("N",)
    sizes: ClassVar[Mapping[str, Sizes]] = {
        "cpu": Sizes("4096", full="4096, 16384, 32768", sweep="256..32768"),
        "gpu": Sizes("16384", full="4096, 16384, 32768", sweep="1024..65536"),
        "simulator": Sizes("70"),
    }


def changes_below(columns: int, rows: int, pivots: float) -> float:
    """Words that are changed below pivots, of which each 64 columns have so many.

    Rows that became pivots are done with.

    Parameters
    ----------
    columns, rows : int
        Of the matrix.
    pivots : float
        Of each 64 columns.
    """
    panels = -(-columns // _WORD)
    left = np.maximum(rows - pivots * np.arange(1, panels + 1), 0)
    return float(np.sum(left * np.arange(panels - 1, -1, -1)))


def over_gf2(case: Case, libraries: Mapping[str, Prepare]) -> Peers:
    """Those of the named libraries that are installed, with the host's processor."""
    if case.device.capabilities.kind == "simulator":
        return []
    there = {"M4RI": m4ri.available(), "galois": find_spec("galois") is not None}
    return [Contender(name, x, None, peer=True) for name, x in libraries.items() if there[name]]


def in_galois(columns: int, work: Callable[..., Any], *matrices: Array) -> Run:
    """Some work on matrices as galois has them, an element to a byte.

    The first run, which is verified, gives words; later ones are timed, and give nothing.
    """
    import galois

    field = galois.GF2
    bits = [np.unpackbits(x.view(np.uint8), axis=1, bitorder="little") for x in matrices]
    held = [field(x[:, :columns]) for x in bits]
    runs = count()

    def run() -> Array:
        result = work(*held)
        return np.empty(0) if next(runs) else _words(result.view(np.ndarray))

    return run


def _words(bits: Array) -> Array:
    """Elements, 64 to a word."""
    width = -(-bits.shape[1] // _WORD) * _WORD
    wide = np.pad(bits.astype(np.uint8), ((0, 0), (0, width - bits.shape[1])))
    return np.packbits(wide, axis=1, bitorder="little").view(np.uint64)
