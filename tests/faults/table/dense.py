"""Faults in panels, bisection and rotations."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import fault, without_barrier

LINALG: Final = "portable.linalg."
PANEL: Final = LINALG + "dense.panel_kernels:"
REFLECTORS: Final = LINALG + "dense.reduction:"
DIRECT: Final = LINALG + "singular_values.direct_kernels:"
BISECTION: Final = LINALG + "singular_values.bidiagonal:"
JACOBI: Final = LINALG + "singular_values.jacobi_kernels:"

DENSE: Final = (
    without_barrier(
        PANEL + "node_across_items",
        0,
        1,
        "the triangle is made before its products are there",
        "panels_by_items",
    ),
    without_barrier(
        PANEL + "eliminate",
        0,
        1,
        "a reflector is read before it is told",
        "panels_by_sub_groups",
    ),
    fault(
        "a reflector's two places become one",
        PANEL + "eliminate",
        "slot = column_here % 2",
        "slot = column_here % 1",
        "panels_by_sub_groups",
        "race",
    ),
    without_barrier(
        PANEL + "add_up",
        0,
        2,
        "parts of a sum are added up before they are there",
        "panels_by_items",
    ),
    without_barrier(
        PANEL + "add_up",
        1,
        2,
        "a sum is read before it is made",
        "panels_by_items",
    ),
    fault(
        "who comes last reads without having acquired",
        "portable.lang.library.collectives:arrived_last",
        'kl.atomic_add(counts, slot, 1, order="acq_rel")',
        'kl.atomic_add(counts, slot, 1, order="release")',
        "panels_by_items",
        "race",
    ),
    fault(
        "who comes last reads what was not released",
        "portable.lang.library.collectives:arrived_last",
        'kl.atomic_add(counts, slot, 1, order="acq_rel")',
        'kl.atomic_add(counts, slot, 1, order="acquire")',
        "panels_in_vectors",
        "race",
    ),
    without_barrier(
        "portable.lang.library.collectives:arrived_last",
        0,
        2,
        "a workgroup arrives before all of it is done",
        "reductions_of_strips",
    ),
    fault(
        "the second to last goes on",
        "portable.lang.library.collectives:arrived_last",
        "kl.workgroup_uniform(before) == siblings - 1",
        "kl.workgroup_uniform(before) == siblings - 2",
        "reductions_at_once",
        "race",
    ),
    fault(
        "a panel's rows beyond the matrix are read",
        PANEL + "node_across_items",
        "line < a.shape[0] and first + c < width",
        "first + c < width",
        "panels_by_items",
        "bounds",
    ),
    without_barrier(
        REFLECTORS + "combine",
        0,
        4,
        "blocks are multiplied when only the own part has come",
        "panels_by_items",
    ),
    without_barrier(
        REFLECTORS + "combine",
        2,
        4,
        "a product is overwritten while it is multiplied",
        "panels_by_items",
    ),
    fault(
        "the block is read without waiting for its copy",
        REFLECTORS + "combine",
        "kl.copy_wait(0)",
        "pass",
        "panels_by_items",
        "copy",
    ),
    without_barrier(
        DIRECT + "make_reflectors",
        0,
        1,
        "totals are read before they are there",
        "straight_to_two_diagonals",
    ),
    without_barrier(
        DIRECT + "change_rows",
        0,
        1,
        "rows change while their team reads them",
        "straight_to_two_diagonals",
    ),
    without_barrier(
        DIRECT + "bidiagonalize",
        0,
        3,
        "rows change by half a reflector",
        "straight_to_two_diagonals",
    ),
    fault(
        "the last value has no guard",
        BISECTION + "bisect",
        "k < n",
        "k <= n",
        "singular_values_of_two_diagonals",
        "bounds",
    ),
    fault(
        "counts begin at one",
        BISECTION + "count_pivots",
        "kl.splat(kl.cast(0, INT), LANES)",
        "kl.splat(kl.cast(1, INT), LANES)",
        "singular_values_of_two_diagonals",
        "result",
    ),
    fault(
        "the last row has no square",
        BISECTION + "squares",
        "i < q.shape[1]",
        "i < q.shape[1] - 1",
        "singular_values_of_two_diagonals",
        "uninitialised",
    ),
    without_barrier(
        JACOBI + "one_sweep",
        0,
        1,
        "rounds of rotations touch",
        "singular_values_by_rotations",
    ),
    without_barrier(
        JACOBI + "fetch",
        0,
        1,
        "the largest element is looked for too early",
        "singular_values_by_rotations",
    ),
    without_barrier(
        JACOBI + "jacobi_svdvals",
        0,
        1,
        "lengths are compared before all are known",
        "singular_values_by_rotations",
    ),
    fault(
        "rotations stop one pair short",
        JACOBI + "one_sweep",
        "kl.maximum(p, q) < N",
        "kl.maximum(p, q) < N - 1",
        "singular_values_by_rotations",
        "result",
    ),
)
