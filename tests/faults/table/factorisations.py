"""Faults in factorisations: diagonal blocks, panels, exchanges of rows and triangles."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import fault, without_barrier

FACTORS: Final = "portable.linalg.factorisations."
DEFINITE: Final = FACTORS + "definite_kernels:"
TRIANGLES: Final = FACTORS + "triangle_kernels:"
PANELS: Final = FACTORS + "panel_kernels:"
HELD: Final = FACTORS + "held_panel_kernels:"
REFLECTORS: Final = FACTORS + "held_reflector_kernels:"
BOARDS: Final = "portable.linalg.base.boards:"

FACTORISATIONS: Final = (
    without_barrier(
        DEFINITE + "eliminate_rows",
        0,
        1,
        "a row is read before it is handed over",
        "positive_definite_by_tiles",
    ),
    fault(
        "rows that are handed over have one place",
        DEFINITE + "cholesky_rows",
        "handed[band % 2]",
        "handed[0]",
        "positive_definite_by_tiles",
        "race",
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
        HELD + "eliminate_in_registers",
        0,
        2,
        "a workgroup says that it has loaded a panel before all have",
        "panels_of_pivots_by_several_workgroups",
    ),
    without_barrier(
        HELD + "eliminate_in_registers",
        1,
        2,
        "rows are stored before all workgroups have loaded theirs",
        "panels_of_pivots_by_several_workgroups",
    ),
    fault(
        "rows are stored where others load, who said nothing",
        HELD + "eliminate_in_registers",
        "kl.atomic_load(counts, slot, order='acquire') < groups",
        "kl.atomic_load(counts, slot) < groups",
        "panels_of_pivots_by_several_workgroups",
        "race",
    ),
    without_barrier(
        HELD + "hand_over",
        0,
        2,
        "a row is told before it is handed over",
        "panels_of_pivots_by_several_workgroups",
    ),
    without_barrier(
        HELD + "hand_over",
        1,
        2,
        "a pivot's row is read before it is handed over",
        "a_system_of_equations",
    ),
    without_barrier(
        HELD + "loaded_after",
        0,
        2,
        "rows that a panel has moved are overwritten by others",
        "a_system_of_equations",
    ),
    without_barrier(
        HELD + "loaded_after",
        1,
        2,
        "rows of U are taken before they are solved for",
        "a_system_of_equations",
    ),
    without_barrier(
        HELD + "solve_above",
        0,
        1,
        "a panel's triangle is solved with before it is there",
        "a_system_of_equations",
    ),
    fault(
        "rows of pivots have one place",
        HELD + "eliminate_in_registers",
        "rows_in_turn[k % 2]",
        "rows_in_turn[0]",
        "panels_of_pivots_by_several_workgroups",
        "race",
    ),
    fault(
        "rows of pivots have one place on the board",
        HELD + "eliminate_in_registers",
        "where_told = (2 * batch + k % 2, group, groups)",
        "where_told = (2 * batch, group, groups)",
        "panels_of_pivots_by_several_workgroups",
        "wait",
    ),
    fault(
        "numbers are taken from a board before they are there",
        BOARDS + "awaited",
        "(words[p] >> 32) != kl.cast(mark, kl.u64)",
        "(words[p] >> 32) > kl.cast(mark, kl.u64)",
        "panels_of_pivots_by_several_workgroups",
        "wait",
    ),
    without_barrier(
        HELD + "exchange_and_solve",
        0,
        2,
        "rows change places before all have been read",
        "a_system_of_equations",
    ),
    without_barrier(
        HELD + "exchange_and_solve",
        1,
        2,
        "rows are solved for before they have changed places",
        "a_system_of_equations",
    ),
    without_barrier(
        REFLECTORS + "add_up",
        0,
        3,
        "sums of sub-groups are added up before they are there",
        "reflectors_in_registers",
    ),
    without_barrier(
        REFLECTORS + "add_up",
        1,
        3,
        "sums of workgroups are added up before they are there",
        "panels_of_reflectors_by_several_workgroups",
    ),
    without_barrier(
        REFLECTORS + "add_up",
        2,
        3,
        "products of a column are read before they are there",
        "reflectors_in_registers",
    ),
    without_barrier(
        REFLECTORS + "scale",
        0,
        2,
        "largest elements of workgroups are compared before they are there",
        "panels_of_reflectors_by_several_workgroups",
    ),
    without_barrier(
        REFLECTORS + "reflect_in_registers",
        0,
        1,
        "factors of reflectors are stored before they are joined",
        "reflectors_in_registers",
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
