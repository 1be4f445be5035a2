"""Faults in factorisations: diagonal blocks, panels, exchanges of rows and triangles."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import fault, without_barrier

FACTORS: Final = "portable.linalg.factorisations."
DEFINITE: Final = FACTORS + "definite_kernels:"
TRIANGLES: Final = FACTORS + "triangle_kernels:"
PANELS: Final = FACTORS + "panel_kernels:"
TALL: Final = FACTORS + "tall_kernels:"
SLICES: Final = FACTORS + "slice_kernels:"
REFLECTORS: Final = FACTORS + "reflector_slice_kernels:"
BOARDS: Final = "portable.linalg.base.boards:"

FACTORISATIONS: Final = (
    without_barrier(
        DEFINITE + "eliminate_rows",
        0,
        2,
        "a square is factored before all show what they have of it",
        "positive_definite_by_tiles",
    ),
    without_barrier(
        DEFINITE + "eliminate_rows",
        1,
        2,
        "a row is read before it is handed over",
        "positive_definite_by_tiles",
    ),
    without_barrier(
        DEFINITE + "eliminate_rows",
        1,
        2,
        "a row is read before a sub-group hands it over",
        "positive_definite_by_sub_groups",
    ),
    fault(
        "rows that sub-groups hand over have one place",
        DEFINITE + "cholesky_rows",
        "handed[band % 2]",
        "handed[0]",
        "positive_definite_by_sub_groups",
        "race",
    ),
    without_barrier(
        TALL + "gram_rows",
        0,
        2,
        "a tile of rows is multiplied before it is there",
        "tall_matrices_by_rows",
    ),
    without_barrier(
        TALL + "multiply_rows",
        0,
        2,
        "a tile of rows is divided before it is there",
        "tall_matrices_by_rows",
    ),
    without_barrier(
        TALL + "multiply_rows",
        1,
        2,
        "the next tile of rows comes before the last one is divided",
        "tall_matrices_by_rows",
    ),
    without_barrier(
        TALL + "add_grams",
        0,
        1,
        "parts of Gram matrices are added up before they are there",
        "tall_matrices_by_rows",
    ),
    without_barrier(
        TRIANGLES + "load_triangle",
        0,
        1,
        "a triangle is solved with before it is there",
        "a_system_of_equations",
    ),
    without_barrier(
        TRIANGLES + "substitute",
        0,
        1,
        "rows of a solution are read before they are handed over",
        "a_system_of_equations",
    ),
    fault(
        "rows of a solution have one place",
        TRIANGLES + "substitute",
        "handed[step % 2, k, across] = x[k]",
        "handed[0, k, across] = x[k]",
        "a_system_of_equations",
        "race",
    ),
    without_barrier(
        PANELS + "eliminate_panel",
        1,
        3,
        "rows of a panel are eliminated before they have changed places",
        "a_system_of_equations_through_memory",
    ),
    without_barrier(
        SLICES + "eliminate_slices",
        0,
        4,
        "a slice is taken over before it is known to be done",
        "panels_of_pivots_by_several_workgroups",
    ),
    without_barrier(
        SLICES + "eliminate_slices",
        1,
        4,
        "places of pivots are compared before there is one",
        "panels_of_pivots_by_several_workgroups",
    ),
    without_barrier(
        SLICES + "eliminate_slices",
        2,
        4,
        "a pivot's row is read before it is handed over",
        "a_system_of_equations",
    ),
    without_barrier(
        SLICES + "eliminate_slices",
        3,
        4,
        "a slice is said to be done before it is stored",
        "panels_of_pivots_by_several_workgroups",
    ),
    fault(
        "slices are taken over from others without acquiring",
        SLICES + "eliminate_slices",
        "kl.atomic_load(counts, slot, order='acquire') <= done",
        "kl.atomic_load(counts, slot) <= done",
        "panels_of_pivots_by_several_workgroups",
        "race",
    ),
    fault(
        "places of pivots are compared with those of the column before",
        SLICES + "eliminate_slices",
        "firsts[(k + 1) % 2] = m",
        "firsts[k % 2] = m",
        "panels_of_pivots_by_several_workgroups",
        "race",
    ),
    without_barrier(
        SLICES + "chosen",
        0,
        1,
        "places of pivots are read before all are compared",
        "a_system_of_equations",
    ),
    without_barrier(
        SLICES + "take_over",
        0,
        2,
        "rows of pivots are solved with before they are there",
        "panels_of_pivots_by_several_workgroups",
    ),
    without_barrier(
        SLICES + "take_over",
        1,
        2,
        "rows of U are taken before they are solved for",
        "panels_of_pivots_by_several_workgroups",
    ),
    without_barrier(
        SLICES + "tell_moves",
        0,
        1,
        "what moves is told before nothing does",
        "a_system_of_equations",
    ),
    without_barrier(
        SLICES + "exchange",
        0,
        2,
        "rows change places before all have been read",
        "a_system_of_equations",
    ),
    without_barrier(
        SLICES + "exchange",
        1,
        2,
        "rows change places before those of the panel before have",
        "a_system_of_equations",
    ),
    without_barrier(
        REFLECTORS + "add_up",
        0,
        2,
        "sums of sub-groups are added up before they are there",
        "reflectors_in_registers",
    ),
    without_barrier(
        REFLECTORS + "add_up",
        1,
        2,
        "products of a column are read before they are there",
        "reflectors_in_registers",
    ),
    without_barrier(
        REFLECTORS + "reflect_slices",
        0,
        3,
        "reflectors are applied before they are known to be done",
        "panels_of_reflectors_by_several_workgroups",
    ),
    without_barrier(
        REFLECTORS + "reflect_slices",
        1,
        3,
        "factors of reflectors are stored before they are joined",
        "reflectors_in_registers",
    ),
    without_barrier(
        REFLECTORS + "reflect_slices",
        2,
        3,
        "reflectors are said to be done before they are stored",
        "panels_of_reflectors_by_several_workgroups",
    ),
    without_barrier(
        REFLECTORS + "reflect",
        0,
        3,
        "sums of a slice are added up before they are there",
        "panels_of_reflectors_by_several_workgroups",
    ),
    without_barrier(
        REFLECTORS + "reflect",
        1,
        3,
        "products with a slice are taken before they are added up",
        "panels_of_reflectors_by_several_workgroups",
    ),
    without_barrier(
        REFLECTORS + "reflect",
        2,
        3,
        "shares of a slice are taken from rows before they are there",
        "panels_of_reflectors_by_several_workgroups",
    ),
    fault(
        "workgroups meet without acquiring",
        BOARDS + "meet",
        "kl.atomic_load(counts, slot, order='acquire') < times * GROUPS",
        "kl.atomic_load(counts, slot) < times * GROUPS",
        "tridiagonal_by_several",
        "race",
    ),
    without_barrier(
        BOARDS + "meet",
        0,
        2,
        "a workgroup says that it has come before all have written",
        "tridiagonal_by_several",
    ),
    without_barrier(
        BOARDS + "meet",
        1,
        2,
        "work-items go on before their workgroup has met the others",
        "tridiagonal_by_several",
    ),
)
