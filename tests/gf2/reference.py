"""Plain elimination over GF(2): a row is a Python integer, bit c being column c."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Rows = list[int]


@dataclass(frozen=True)
class Problem:
    """Eliminators and rows of `columns` columns."""

    columns: int
    eliminators: Rows
    rows: Rows


def random_problem(seed: int, columns: int, rows: int, density: float) -> Problem:
    """Distinct leading columns for some columns in any order, rows of which some repeat."""
    rng = np.random.default_rng(seed)
    leads = rng.permutation(columns)[: rng.integers(0, columns + 1)]
    eliminators = [1 << int(lead) | _row(rng, int(lead), density) for lead in leads]
    made = [_row(rng, columns, density) for _ in range(rows)]
    for i in range(2, rows, 3):
        made[i] = made[i - 1] ^ made[i - 2]
    return Problem(columns, eliminators, made)


def _row(rng: np.random.Generator, columns: int, density: float) -> int:
    return sum(1 << int(c) for c in np.flatnonzero(rng.random(columns) < density))


def eliminated(problem: Problem) -> Rows:
    """The serial algorithm, as it is told."""
    known = {row.bit_length(): row for row in problem.eliminators}
    done = []
    for row in problem.rows:
        while row and row.bit_length() in known:
            row ^= known[row.bit_length()]
        if row:
            known[row.bit_length()] = row
        done.append(row)
    return done


def columns_of(row: int) -> list[int]:
    return [c for c in range(row.bit_length()) if row >> c & 1]


def as_rows(dense: np.ndarray) -> Rows:
    return [sum(1 << int(c) for c in np.flatnonzero(row)) for row in dense]


def row_reduced(dense: np.ndarray) -> np.ndarray:
    """The reduced row echelon form, its empty rows last."""
    a = np.array(dense, bool)
    top = 0
    for c in range(a.shape[1]):
        hits = np.flatnonzero(a[top:, c])
        if not hits.size:
            continue
        a[[top, top + hits[0]]] = a[[top + hits[0], top]]
        others = np.flatnonzero(a[:, c])
        a[others[others != top]] ^= a[top]
        top += 1
        if top == a.shape[0]:
            break
    return a
