"""Faults in factorisations: diagonal blocks, panels, exchanges of rows and triangles."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import fault, without_barrier

FACTORS: Final = "portable.linalg.factorisations."
TRIANGLES: Final = FACTORS + "triangle_kernels:"
PANELS: Final = FACTORS + "panel_kernels:"
HELD: Final = FACTORS + "held_panel_kernels:"
REFLECTORS: Final = FACTORS + "held_reflector_kernels:"
SHARED: Final = FACTORS + "shared_panel_kernels:"

FACTORISATIONS: Final = (
    without_barrier(
        TRIANGLES + "factor_tiles",
        0,
        3,
        "a row is read before it is handed over",
        "positive_definite_by_tiles",
    ),
    fault(
        "rows that are handed over have one place",
        TRIANGLES + "factor_tiles",
        "handed[k % 2, column + j] = tile[i, j]",
        "handed[0, column + j] = tile[i, j]",
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
        PANELS + "exchange_rows",
        1,
        2,
        "rows change places before they are read",
        "a_system_of_equations_through_memory",
    ),
    without_barrier(
        PANELS + "exchange_rows",
        0,
        2,
        "rows are read before it is known which",
        "a_system_of_equations_through_memory",
    ),
    without_barrier(
        HELD + "take_pivot",
        0,
        1,
        "a pivot's row is read before it is handed over",
        "a_system_of_equations",
    ),
    fault(
        "rows of pivots have one place",
        HELD + "take_pivot",
        "known.latest[turn % 2, j] = held.values[i, j]",
        "known.latest[0, j] = held.values[i, j]",
        "a_system_of_equations",
        "uninitialised",
    ),
    without_barrier(
        HELD + "solve_above",
        0,
        2,
        "rows of U are solved for before they are there",
        "a_system_of_equations",
    ),
    without_barrier(
        HELD + "solve_above",
        1,
        2,
        "rows of U are read before they are solved for",
        "a_system_of_equations",
    ),
    without_barrier(
        HELD + "keep_lower",
        0,
        1,
        "L of pivots is read before it is there",
        "a_system_of_equations",
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
        REFLECTORS + "multiply",
        0,
        2,
        "sums of sub-groups are added up before they are there",
        "reflectors_in_registers",
    ),
    without_barrier(
        REFLECTORS + "multiply",
        1,
        2,
        "products with reflectors are read before they are there",
        "reflectors_in_registers",
    ),
    without_barrier(
        REFLECTORS + "turn_sums",
        0,
        1,
        "shares of reflectors are taken before they are there",
        "reflectors_in_registers",
    ),
    without_barrier(
        REFLECTORS + "make_reflector",
        0,
        2,
        "sums of a column are added up before they are there",
        "reflectors_in_registers",
    ),
    without_barrier(
        REFLECTORS + "make_reflector",
        1,
        2,
        "products of a column are read before they are there",
        "reflectors_in_registers",
    ),
    without_barrier(
        REFLECTORS + "join_factors",
        0,
        2,
        "factors of reflectors are joined before their products are there",
        "reflectors_in_registers",
    ),
    fault(
        "workgroups go on when one of them has not come",
        SHARED + "meet",
        "kl.atomic_load(counts, slot, order='acquire') < times * GROUPS",
        "kl.atomic_load(counts, slot, order='acquire') < times * GROUPS - 1",
        "panels_of_reflectors_by_several_workgroups",
        "race",
    ),
    fault(
        "workgroups meet without acquiring",
        SHARED + "meet",
        "kl.atomic_load(counts, slot, order='acquire') < times * GROUPS",
        "kl.atomic_load(counts, slot) < times * GROUPS",
        "panels_of_reflectors_by_several_workgroups",
        "race",
    ),
    without_barrier(
        SHARED + "meet",
        0,
        2,
        "a workgroup says that it has come before all have written",
        "panels_of_reflectors_by_several_workgroups",
    ),
    without_barrier(
        SHARED + "meet",
        1,
        2,
        "work-items go on before their workgroup has met the others",
        "panels_of_reflectors_by_several_workgroups",
    ),
    without_barrier(
        SHARED + "reflect_together",
        0,
        4,
        "totals of products are read before they are there",
        "panels_of_reflectors_by_several_workgroups",
    ),
)
