"""Copies of gradients whose rows of three numbers are of four, for points in space.

An addition to four neighbours costs a GPU as much as one to one of them, where it has such an
instruction; it takes an address that they divide. The fourth lane adds nought.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from portable.gradients.adjoint.names import zero
from portable.gradients.adjoint.strips import counted, number_of
from portable.lang.emit.atomic_runs import atomic_runs
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array
from portable.lang.ir.walks import all_statements, map_block

ROW: Final = 4
"""Numbers of a padded row."""


def additions_to_rows(kernel: Kernel, arrays: Sequence[Array]) -> dict[Array, int]:
    """The arrays to which an adjoint only adds, rows of three among them, and how many of these.

    Parameters
    ----------
    kernel : Kernel
        The adjoint.
    arrays : sequence of Array
        Those of gradients.
    """
    ends = _ends(kernel.body)
    return counted(kernel, arrays, lambda x: id(x) in ends)


def padded(kernel: Kernel, copies: Mapping[Array, Array]) -> s.Block:
    """The body of an adjoint that adds to copies, each of as many rows of four."""
    ends, kind = _ends(kernel.body), kernel.index_type

    def change(x: s.Statement) -> s.Block:
        if not isinstance(x, s.Atomic) or x.array not in copies:
            return (x,)
        assert x.value is not None
        row = number_of(x.array, x.index[:-1], kind)
        made = replace(x, array=copies[x.array], index=(row, x.index[-1]))
        if id(x) not in ends:
            return (made,)
        nought = zero(x.value.type)
        return made, replace(made, index=(row, e.Const(ROW - 1, kind)), value=nought)

    return map_block(kernel.body, change)


def _ends(body: s.Block) -> set[int]:
    """The identities of the last of each addition to a row of three."""
    blocks = [body, *(part for x in all_statements(body) for part in x.blocks())]
    runs = {at: run for block in blocks for at, run in atomic_runs(block).items()}
    return {at for at, run in runs.items() if _is_row(run)}


def _is_row(run: Sequence[s.Atomic]) -> bool:
    lanes = [x.index[-1].value for x in run if isinstance(x.index[-1], e.Const)]
    return len(run) == ROW - 1 and lanes == [*range(ROW - 1)] and run[0].array.ndim > 1
