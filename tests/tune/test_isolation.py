"""Choices that kill or block the process that tries them, and what is left of a search."""

from __future__ import annotations

import json
import multiprocessing

import pytest
from click.testing import CliRunner

from portable.dtypes import float32
from portable.errors import PortableError
from portable.tune import cli
from portable.tune.isolation import Isolated
from portable.tune.space import Space
from portable.tune.tunable import Tunable
from tests.tune.planted import (
    evaluator,
    failing_evaluator,
    planted_problem,
    vanishing_evaluator,
)


def test_a_lost_process_is_replaced() -> None:
    with Isolated(evaluator, patience=1.0) as evaluate:
        first = evaluate({"X": "fast"}, 1.0)
        assert evaluate({"X": "slow"}, 1.0).seconds == first.seconds
        assert evaluate({"X": "die"}, 1.0).failure == "killed its process (SIGSEGV)"
        assert evaluate({"X": "leave"}, 1.0).failure == "killed its process (exit code 3)"
        assert evaluate({"X": "block"}, 1.0).failure == "not done after 1 s"
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


@pytest.mark.needs_processor
def test_a_search_passes_over_what_kills_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = ("die", "slow", "block", "fast")
    space = Space("planted", {"X": choices}, lambda choice, dtype, capabilities: True)
    tunable = Tunable(
        space,
        (float32,),
        lambda capabilities: [(1,)],
        lambda text: (1,),
        lambda size: 1e6,
        planted_problem,
    )
    monkeypatch.setattr(cli, "_known", lambda kernel: tunable)
    monkeypatch.setattr(cli, "lookup", lambda *names: [])
    words = ("planted", "--device", "cpu", "--budget", "20", "--patience", "1")
    done = CliRunner().invoke(cli.tune, words)
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["float32"].values()
    assert found == [{"X": "fast"}]
    assert "4 tried, 2 failed" in done.stderr
    assert "killed its process (SIGSEGV)" in done.stderr
