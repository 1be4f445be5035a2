"""Cells that kill or block the process that measures them, and those after them."""

from __future__ import annotations

import multiprocessing
from functools import partial

import pytest

from portable.dtypes import float32
from portable_bench.harness import Pace
from portable_bench.operation import Case, Operation
from portable_bench.results import Cell
from portable_bench.run import measure_all
from portable_bench.tables import tables
from portable_bench.worker import Worker
from tests.bench.deadly import (
    as_its_process,
    block,
    die,
    fall_over,
    find,
    interrupt,
    scripted,
)
from tests.bench.fakes import FakeDevice
from tests.support.patience import PATIENCE, alarms_interrupt

PACE = Pace(cell=0, least_rounds=1, rest=0)
CASE = Case(FakeDevice(), float32, (4,))


class Impatient(Worker):
    """Waits long for all but the cell that blocks, and for that one hardly."""

    def measure(self, operation: Operation, case: Case, *, ladder: bool = False) -> Cell:
        self._server.patience = 0.2 if operation.name == "blocks" else PATIENCE
        return super().measure(operation, case, ladder=ladder)


def test_a_cell_that_ends_its_process_says_so_and_stops_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fine = partial(scripted, seconds=as_its_process)
    planned = [
        (operation, CASE)
        for operation in (
            fine("first"),
            fine("second"),
            scripted("dies", die),
            fine("third"),
            scripted("faults", fall_over),
            scripted("blocks", block),
            fine("last"),
        )
    ]
    with Impatient(PACE, patience=PATIENCE, find=find) as worker:
        cells = {cell.operation: cell for cell in measure_all(planned, worker)}
    assert cells["dies"].failure == "killed its process (SIGSEGV)"
    assert cells["blocks"].failure == "not done after 0.2 s"
    assert cells["faults"].outcomes[0].failure == "an earlier kernel failed"
    timed = [cells[name].ours[0] for name in ("first", "second", "third", "last")]
    assert all(outcome.timed and outcome.verified for outcome in timed)
    assert not multiprocessing.active_children()
    assert [len(table.rows) for table in tables(list(cells.values()))] == [1] * 7


def test_a_program_that_kills_its_compiler_is_told_when_its_turn_comes() -> None:
    planned = [(scripted("fine", as_its_process), CASE), (scripted("dies", die), CASE)]
    with Worker(PACE, find=find) as worker:
        fine, dies = measure_all(planned, worker, ahead=True)
    assert fine.ours[0].timed
    assert dies.failure == "killed its process (SIGSEGV)"


def test_a_program_that_compiles_for_ever_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("portable_bench.worker._GRACE", 0.1)
    planned = [(scripted("fine", as_its_process), CASE), (scripted("blocks", block), CASE)]
    with Worker(PACE, patience=PATIENCE, find=find) as worker:
        worker.compile(planned, lambda done, total: None, lambda: True)
        assert worker.measure(*planned[0]).ours[0].timed


def test_an_interrupt_ends_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    planned = [(scripted("fine", as_its_process), CASE), (scripted("ends", interrupt), CASE)]
    with alarms_interrupt(), Worker(PACE, patience=PATIENCE, find=find) as worker:
        cells = measure_all(planned, worker)
    assert [cell.operation for cell in cells] == ["fine"]
    assert "interrupted after 1 of 2" in capsys.readouterr().err
    assert not multiprocessing.active_children()
