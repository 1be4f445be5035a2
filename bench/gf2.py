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

# What is right over GF(2), told from a few random combinations and rows.

_VECTORS: Final = 8
_SAMPLE: Final = 24


def product_check(a: Array, b: Array, columns: int) -> Callable[[Any], float]:
    """Of ``c = a @ b``: whether ``c x = a (b x)`` for random x (R. Freivalds).

    Parameters
    ----------
    a, b : numpy.ndarray of uint64, shape (rows, words)
        The bits of each row, packed.
    columns : int
        How many bits of a row of `b` count.
    """
    rng = np.random.default_rng(5)
    xs = [_packed(rng.random(columns) < 0.5, -(-columns // 64)) for _ in range(_VECTORS)]
    expected = [_times(a, _packed(_times(b, x), a.shape[1])) for x in xs]

    def error(c: Any) -> float:
        right = all(np.array_equal(_times(c, x), y) for x, y in zip(xs, expected, strict=True))
        return 0.0 if right else float("inf")

    return error


def echelon_check(a: Array) -> Callable[[Any], float]:
    """Of a row echelon form: its rows lead further and further right, and give sums of `a`'s."""
    rng = np.random.default_rng(5)
    sums = [_integer(np.bitwise_xor.reduce(a[rng.random(len(a)) < 0.5])) for _ in range(_VECTORS)]

    def error(result: Any) -> float:
        rows = [row for row in (_integer(words) for words in result) if row]
        leads = [row & -row for row in rows]
        if leads != sorted(set(leads)):
            return float("inf")
        left = [_reduced(total, dict(zip(leads, rows, strict=True))) for total in sums]
        return float("inf") if any(left) else 0.0

    return error


def elimination_check(eliminators: Array, rows: Array) -> Callable[[Any], float]:
    """Of the special elimination: some rows are what the eliminators and earlier results make them.

    If that held for all rows, the result would be that of the serial algorithm.
    """
    known = {row.bit_length(): row for row in map(_integer, eliminators)}
    sample = np.random.default_rng(5).choice(len(rows), min(_SAMPLE, len(rows)), replace=False)

    def error(result: Any) -> float:
        came = [_integer(words) for words in result]
        leads = {row.bit_length(): i for i, row in enumerate(came) if row}
        if len(leads) < sum(map(bool, came)) or leads.keys() & known.keys():
            return float("inf")
        for i in map(int, sample):
            row = _integer(rows[i])
            while row and (row.bit_length() in known or leads.get(row.bit_length(), len(rows)) < i):
                lead = row.bit_length()
                row ^= known[lead] if lead in known else came[leads[lead]]
            if row != came[i]:
                return float("inf")
        return 0.0

    return error


def elimination_or_echelon_check(eliminators: Array, rows: Array) -> Callable[[Any], float]:
    """The former of as many rows as were given, of more of them the latter, of all together."""
    ours = elimination_check(eliminators, rows)
    peers = echelon_check(np.concatenate([eliminators, rows]))
    return lambda found: ours(found) if len(found) == len(rows) else peers(found)


def _reduced(row: int, known: dict[int, int]) -> int:
    """What is left of a row when those that lead where it does are taken from it."""
    while row & -row in known:
        row ^= known[row & -row]
    return row


def _integer(words: Array) -> int:
    return int.from_bytes(np.ascontiguousarray(words).astype("<u8").tobytes(), "little")


def _packed(bits: Array, width: int) -> Array:
    held = np.zeros(width * 64, np.bool_)
    held[: bits.size] = bits
    return np.packbits(held, bitorder="little").view("<u8").astype(np.uint64)


def _times(a: Array, x: Array) -> Array:
    """``a @ x`` of words by a packed vector, a bool for each row."""
    out = np.empty(len(a), np.bool_)
    for start in range(0, len(a), 1024):
        part = a[start : start + 1024] & x
        out[start : start + 1024] = np.bitwise_count(part).sum(1, dtype=np.int64) % 2
    return out


# -- gf2 -------------------------------------------------------------------------------------------

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
