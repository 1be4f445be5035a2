"""Choices that kill or block the process that tries them, and what is left of a search."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from portable.dtypes import float32
from portable.errors import PortableError
from portable.tune import cli
from portable.tune.cli import Evaluate, Isolated
from portable.tune.search import Trial
from portable.tune.space import Parameters, Space
from portable.tune.tunable import Tunable
from tests.support.patience import PATIENCE, alarms_interrupt
from tests.tune.planted import (
    evaluator,
    failing_evaluator,
    planted_evaluator,
    planted_problem,
    vanishing_evaluator,
)


class Impatient(Isolated):
    """Waits long for all but the choice that blocks, and for that one hardly."""

    def __init__(self, make: Callable[[], Evaluate], *, patience: float = PATIENCE) -> None:
        super().__init__(make, patience=patience)
        self._patience = patience

    def __call__(self, choice: Parameters, best: float) -> Trial:
        self.patience = 0.2 if choice["X"] == "block" else self._patience
        return super().__call__(choice, best)


def test_a_lost_process_is_replaced() -> None:
    with Impatient(evaluator) as evaluate:
        first = evaluate({"X": "fast"}, 1.0)
        assert evaluate({"X": "slow"}, 1.0).seconds == first.seconds
        assert evaluate({"X": "die"}, 1.0).failure == "killed its process (SIGSEGV)"
        assert evaluate({"X": "leave"}, 1.0).failure == "killed its process (exit code 3)"
        assert evaluate({"X": "block"}, 1.0).failure == "not done after 0.2 s"
        assert evaluate({"X": "break"}, 1.0).failure == "an earlier kernel failed"
        last = evaluate({"X": "fast"}, 1.0)
        assert not last.failure
        assert last.seconds != first.seconds
    assert not multiprocessing.active_children()


def test_an_evaluator_that_cannot_be_made() -> None:
    with pytest.raises(PortableError, match="set up: no room for the operands"):
        Isolated(failing_evaluator).__enter__()
    with pytest.raises(PortableError, match=r"set up: its process is gone \(exit code 4\)"):
        Isolated(vanishing_evaluator).__enter__()


def planted(choices: tuple[str, ...]) -> Tunable:
    return Tunable(
        Space("planted", {"X": choices}, lambda choice, dtype, capabilities: True),
        (float32,),
        lambda capabilities: [(1,), (2,)],
        lambda text: (int(text),),
        lambda size: 1e6,
        planted_problem,
    )


@pytest.mark.needs_processor
def test_a_search_passes_over_what_kills_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = ("die", "slow", "block", "fast")
    tunable = planted(choices)
    monkeypatch.setattr(cli, "_known", lambda kernel: tunable)
    monkeypatch.setattr(cli, "evaluator_of", planted_evaluator)
    monkeypatch.setattr(cli, "lookup", lambda *names: [])
    monkeypatch.setattr(cli, "Isolated", Impatient)
    words = ("planted", "--device", "cpu", "--size", "1", "--budget", "900", "--patience", "900")
    done = CliRunner().invoke(cli.tune, words)
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["float32"].values()
    assert found == [{"X": "fast"}]
    assert "4 tried, 2 failed" in done.stderr
    assert "killed its process (SIGSEGV)" in done.stderr


@pytest.mark.needs_processor
def test_an_interrupt_ends_all_searches_and_keeps_what_was_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = tmp_path / "tuning.json"
    table.write_text("{}", encoding="utf-8")
    monkeypatch.setenv("PORTABLE_TUNING", str(table))
    monkeypatch.setattr(cli, "_known", lambda kernel: planted(("fast", "interrupt")))
    monkeypatch.setattr(cli, "evaluator_of", planted_evaluator)
    monkeypatch.setattr(cli, "lookup", lambda *names: [{"X": "fast"}])
    words = ("planted", "--device", "cpu", "--patience", "900", "--budget", "900", "--write")
    with alarms_interrupt():
        done = CliRunner().invoke(cli.tune, words)
    assert done.exit_code == 130, done.output
    assert "interrupted" in done.stderr
    assert list(json.loads(done.stdout)["float32"].values()) == [[{"X": "fast"}]]
    assert "fast" in table.read_text(encoding="utf-8")
    assert not multiprocessing.active_children()
