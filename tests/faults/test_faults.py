"""Planted faults are found, by what the table says; and nothing is reported without one.

Half of the table each day, by ``PORTABLE_TEST_DAY``; ``python -m tests.faults.report`` tries all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from tests.faults.fault import Change, Fault
from tests.faults.planting import PlaceError, changed_text
from tests.faults.runs import RUNS
from tests.faults.table import FAULTS
from tests.faults.trials import Trials, trials
from tests.support.devices import day

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="faults are tried in forks")

_HALF: Final = slice(day() % 2, None, 2)


@pytest.fixture(scope="module")
def worker() -> Iterator[Trials]:
    with trials() as found:
        yield found


@pytest.mark.parametrize("fault", FAULTS[_HALF], ids=lambda fault: fault.name)
def test_faults_are_found(fault: Fault, worker: Trials) -> None:
    outcome = worker.outcome(fault.name)
    assert outcome.found_by == fault.found_by, outcome.message


@pytest.mark.parametrize("run", list(RUNS)[_HALF])
def test_runs_without_faults_are_clean(run: str, worker: Trials) -> None:
    outcome = worker.outcome(run)
    assert not outcome.found_by, outcome.message


def test_names_differ_and_runs_are_used() -> None:
    names = Counter(fault.name for fault in FAULTS)
    assert names.most_common(1)[0][1] == 1
    assert {fault.run for fault in FAULTS} == set(RUNS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_place_of_each_fault_is_there(fault: Fault) -> None:
    assert changed_text(fault.change)


WHERE = "tests.faults.planting:plant"


@pytest.mark.parametrize(
    ("where", "old", "of"),
    [
        (WHERE, "function_source.cache_clear()", 2),
        (WHERE, "there is no such text", 1),
        ("tests.faults.planting:nothing", "pass", 1),
    ],
)
def test_a_place_that_is_gone_is_told(where: str, old: str, of: int) -> None:
    with pytest.raises(PlaceError, match="up to date"):
        changed_text(Change(where, old.replace(" ", "_"), "pass", of=of))


def test_layout_and_comments_do_not_matter() -> None:
    change = Change(WHERE, "text   = changed_text( change )", "text = ''")
    assert "text = ''" in changed_text(change)
    assert "changed_text" not in changed_text(change)


def test_several_statements_give_way_to_others() -> None:
    old = "name = f'<{change.where}>'\ntext = changed_text(change)"
    text = changed_text(Change(WHERE, old, "text = name = ''"))
    assert "text = name = ''" in text
    assert "changed_text" not in text
