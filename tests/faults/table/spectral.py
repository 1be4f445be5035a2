"""Faults in decompositions with vectors."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import fault, without_barrier

SPECTRAL_ROOM: Final = "portable.linalg.spectral."
ROTATIONS: Final = SPECTRAL_ROOM + "rotations:"
TRIDIAGONAL: Final = SPECTRAL_ROOM + "tridiagonal_kernels:"
BIDIAGONAL: Final = SPECTRAL_ROOM + "bidiagonal_kernels:"
STEPS: Final = SPECTRAL_ROOM + "step_kernels:"
SECULAR: Final = SPECTRAL_ROOM + "secular_kernels:"
MERGES: Final = SPECTRAL_ROOM + "merge_kernels:"
HOPS: Final = SPECTRAL_ROOM + "hop_blocks:"
PANELS: Final = SPECTRAL_ROOM + "symmetric_panels:"
REFLECTIONS: Final = SPECTRAL_ROOM + "reflections:"
REDUCTIONS: Final = SPECTRAL_ROOM + "reduction_kernels:"

BANDED: Final = SPECTRAL_ROOM + "banded:"
ITERATIONS: Final = SPECTRAL_ROOM + "bidiagonal_svd:"

SPECTRAL: Final = (
    *(
        without_barrier(
            ITERATIONS + "iterate_bidiagonal", i, 4, what, "bidiagonal_vectors_by_rotations"
        )
        for i, what in enumerate(
            (
                "a block is looked for before the matrix is there",
                "a block is read before it is found",
                "rotations are applied before they are made",
            )
        )
    ),
    fault(
        "a value keeps its sign and so do its vectors",
        ITERATIONS + "sort_vectors",
        "kl.where(x < 0, -vectors[1, i, r], vectors[1, i, r])",
        "vectors[1, i, r]",
        "bidiagonal_vectors_by_rotations",
        "result",
    ),
    *(
        without_barrier(BANDED + "factor_shifted_bands", i, 2, what, "values_by_a_band")
        for i, what in enumerate(
            ("a row of a band is read before it came", "a column is read before it is changed")
        )
    ),
    fault(
        "eigenvalues keep a shift",
        BANDED + "store_shifted",
        "x * x - scales[1]",
        "x * x - 0.99 * scales[1]",
        "values_by_a_band",
        "result",
    ),
    without_barrier(
        ROTATIONS + "measure", 0, 1, "lengths of columns are read too early", "vectors_by_rotations"
    ),
    without_barrier(
        ROTATIONS + "complete",
        1,
        8,
        "a unit vector overwrites what it is chosen by",
        "vectors_by_rotations",
    ),
    fault(
        "a completed vector is not made orthogonal to others",
        ROTATIONS + "complete",
        "total = total - long_at(out, row, k, SHAPE) * shares[k]",
        "total = total - long_at(out, row, k, SHAPE) * shares[k] * 0.75",
        "vectors_by_rotations",
        "result",
    ),
    fault(
        "eigenvalues lose their shift",
        ROTATIONS + "hermitian_by_rotations",
        "w[column, column] = w[column, column] + shift",
        "w[column, column] = w[column, column] + 0 * shift",
        "eigenvectors_by_rotations",
        "result",
    ),
    fault(
        "workgroups do not wait for each other",
        TRIDIAGONAL + "tridiagonalize",
        "meet(counts[matrix], panel, phase - first, SHAPE.groups)",
        "meet(counts[matrix], panel, phase - first - 1, SHAPE.groups)",
        "tridiagonal_by_several",
        "race",
    ),
    without_barrier(
        TRIDIAGONAL + "make_column",
        0,
        2,
        "coefficients are read before they are there",
        "tridiagonal_by_one",
    ),
    without_barrier(
        TRIDIAGONAL + "make_column",
        1,
        2,
        "sums of teams are overwritten before they are read",
        "tridiagonal_by_one",
    ),
    without_barrier(
        STEPS + "line_sums",
        0,
        1,
        "sums of teams are read before they are there",
        "tridiagonal_by_one",
    ),
    fault(
        "a reflector is made of half the squares",
        TRIDIAGONAL + "column_part",
        "return absolute_square(x)",
        "return absolute_square(x) * 0.5",
        "tridiagonal_by_one",
        "result",
    ),
    fault(
        "workgroups go on from columns to rows alone",
        BIDIAGONAL + "bidiagonalize_in_panels",
        "meet(counts[matrix], panel, phase - first, SHAPE.groups)",
        "meet(counts[matrix], panel, phase - first - 1, SHAPE.groups)",
        "bidiagonal_by_several",
        "race",
    ),
    without_barrier(
        BIDIAGONAL + "add_columns",
        0,
        2,
        "parts of columns are read before they are there",
        "bidiagonal_by_one",
    ),
    without_barrier(
        BIDIAGONAL + "make_row",
        0,
        2,
        "a row's coefficients are read before they are there",
        "bidiagonal_by_one",
    ),
    fault(
        "a pair is taken off the column without its x",
        BIDIAGONAL + "make_column",
        "value = value - x",
        "value = value - 0 * x",
        "bidiagonal_by_one",
        "result",
    ),
    without_barrier(
        MERGES + "stage", 0, 1, "poles are read before they are there", "merges_of_blocks"
    ),
    fault(
        "poles of both blocks take one place",
        MERGES + "join",
        "index = at + low",
        "index = at + kl.maximum(low, 1) - 1",
        "merges_of_equal_blocks",
        "race",
    ),
    fault(
        "rotations of deflation are made once more",
        MERGES + "unrotate",
        "factor[merge, q, column] = s * x + c * y",
        "factor[merge, q, column] = c * y - s * x",
        "merges_of_equal_blocks",
        "result",
    ),
    fault(
        "weights are those of the given poles",
        SECULAR + "refine_some",
        "weight = kl.copysign(scratch[lane], kept.weights[merge, number + lane])",
        "weight = kept.weights[merge, number + lane] * 1.01",
        "merges_of_blocks",
        "result",
    ),
    fault(
        "a row is multiplied with the column's next elements",
        TRIDIAGONAL + "multiply_triangle",
        "y, by = kl.vload(out, j, lanes=LANES), kl.vload(x, j, lanes=LANES)",
        "y, by = kl.vload(out, j, lanes=LANES), kl.vload(x, j - LANES, lanes=LANES)",
        "tridiagonal_alone",
        "result",
    ),
    fault(
        "lines are taken off the row beside",
        TRIDIAGONAL + "take_lines",
        "left = a[begin + LINES : begin + 2 * LINES, row : row + CHUNK].T",
        "left = a[begin + LINES : begin + 2 * LINES, row + 1 : row + 1 + CHUNK].T",
        "tridiagonal_alone",
        "bounds",
    ),
    fault(
        "a strip begins in the one before it",
        REFLECTIONS + "apply_blocks",
        "kl.group_id(0) * STRIP",
        "kl.group_id(0) * LANES",
        "strips_led_back",
        "race",
    ),
    fault(
        "a block has the rows of the hop before it",
        HOPS + "spread_hops",
        "line - sweep + hop * B + row",
        "line - sweep + hop * B + row - 1",
        "hops_led_back",
        "bounds",
    ),
    fault(
        "a reflector behind the last row is led back",
        HOPS + "spread_hops",
        "element <= n - 2",
        "element <= n - 1",
        "hops_led_back",
        "result",
    ),
    fault(
        "vectors are led back by T's transpose",
        HOPS + "_make_blocks",
        "turned(t[0])",
        "t[0]",
        "hops_led_back",
        "result",
    ),
    fault(
        "a group follows the next one too closely",
        HOPS + "apply_hops",
        "follow(q.counts, ticket + 1 - strips, hop + 1)",
        "follow(q.counts, ticket + 1 - strips, hop)",
        "hops_led_back",
        "race",
    ),
    *(
        without_barrier(HOPS + where, i, of, what, "hops_led_back")
        for where, i, of, what in (
            ("apply_hops", 0, 3, "rows are asked for before the next group has left them"),
            ("apply_hops", 1, 3, "rows are multiplied before they came"),
            ("apply_hops", 2, 3, "a hop is published before all rows are stored"),
            ("apply_block", 0, 1, "products are read before they are there"),
        )
    ),
    without_barrier(
        PANELS + "change_both_sides",
        0,
        1,
        "a square goes to the other side before all of it is there",
        "both_sides_changed",
    ),
    fault(
        "a square goes to the other side as it is",
        PANELS + "change_both_sides",
        "c[i, j] = mirrored[entry // EDGE, entry % EDGE]",
        "c[i, j] = mirrored[entry % EDGE, entry // EDGE]",
        "both_sides_changed",
        "result",
    ),
    *(
        without_barrier(PANELS + where, i, 2, what, "values_by_a_band")
        for where, i, what in (
            ("make_lines", 0, "factors of a panel's lines are multiplied before they came"),
            ("make_correction", 0, "half a product of a panel's lines is multiplied"),
            ("make_correction", 1, "a panel's lines are made of what is not there"),
            ("make_lines", 1, "the next panel is changed by lines that are not there"),
        )
    ),
    fault(
        "a reflector's triangle is not made of those before it",
        REDUCTIONS + "reflector_triangles",
        "value = -tau * total",
        "value = tau * total",
        "vectors_led_back",
        "result",
    ),
)
