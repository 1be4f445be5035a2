"""The harness on a fake clock: what is timed, what is verified, what a failure does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from threading import Event, Timer

import pytest

from portable.dtypes import float32
from portable.errors import OutOfMemoryError
from portable.tune.stopwatch import Stopwatch
from portable_bench.harness import Harness, Pace
from portable_bench.operation import Case, Work
from portable_bench.peers import Peers
from portable_bench.results import Cell, paired_ratio, spread, time_ratio
from portable_bench.run import measure_all
from portable_bench.tables import ladder_table, tables
from portable_bench.worker import Compiling, distinct, shares
from tests.bench.fakes import FakeClock, FakeDevice, Script, Scripted, Uncompiled, outcome

CASE = Case(FakeDevice(), float32, (4,))


def measured(clock: FakeClock, pace: Pace | None = None, **scripts: Script) -> Cell:
    harness = Harness(pace or Pace(), clock, clock.advance)
    return harness.measure(Scripted(clock, scripts), CASE)


def test_the_median_time_of_a_run() -> None:
    cell = measured(FakeClock(), ours=Script(lambda now: 0.02))
    (ours,) = cell.outcomes
    assert ours.verified
    assert ours.seconds == pytest.approx(0.02)
    assert ours.spread == pytest.approx(0, abs=1e-9)
    assert cell.flop_rate(ours) == pytest.approx(50e9)


def test_short_runs_are_repeated() -> None:
    cell = measured(FakeClock(), ours=Script(lambda now: 1e-3))
    assert cell.outcomes[0].repeats in (10, 11)
    assert cell.outcomes[0].seconds == pytest.approx(1e-3)


def test_slow_runs_are_measured_the_least_number_of_times() -> None:
    cell = measured(FakeClock(), ours=Script(lambda now: 30.0))
    assert len(cell.outcomes[0].samples) == Pace().least_rounds


def one_slow(n: int) -> Callable[[float], float]:
    """0.02 s, but for the n-th run, which takes a hundred times as long."""
    runs = count(1)
    return lambda now: 2.0 if next(runs) == n else 0.02


def test_a_single_slow_sample_is_not_all_there_is() -> None:
    """Runs 1 to 3 verify and warm up; the next but one, the first that counts, meets something."""
    pace = Pace(cell=0.01, patience=0.01)
    calm = measured(FakeClock(), pace, ours=Script(lambda now: 0.02))
    assert len(calm.outcomes[0].samples) == 1
    assert calm.outcomes[0].doubt == "one sample"
    ours = measured(FakeClock(), pace, ours=Script(one_slow(5))).outcomes[0]
    assert ours.samples[0].wall == pytest.approx(2.0)
    assert len(ours.samples) > 1


def test_samples_that_disagree_are_followed_by_more_and_marked() -> None:
    runs = count()
    wild = Script(lambda now: 0.3 * 4 ** (next(runs) % 3))
    pace = Pace(cell=0.01, rest=0)
    cell = measured(FakeClock(), pace, ours=wild, peer=Script())
    ours, peer = cell.outcomes
    assert len(ours.samples) == len(peer.samples) == 2 * pace.least_rounds
    assert ours.doubt == "samples disagree"
    assert peer.doubt == ""
    (table,) = tables([cell])
    (ratio,) = next(column for column in table.columns if column.header == "ratio").cells
    assert str(ratio).endswith("?")
    assert "disagree" in str(table.caption)
    calm = measured(FakeClock(), pace, ours=Script(), peer=Script())
    (table,) = tables([calm])
    assert table.caption is None


def test_notes_name_the_peers_and_which_of_ours_was_the_fastest() -> None:
    cell = Cell("mlp", "fake", "f32", (4,), "4", Work(1.0, 1.0))
    cell.outcomes = [
        outcome("portable, prepared", 1.0),
        outcome("portable, called", 2.0),
        outcome("PyTorch", 3.0, peer=True),
    ]

    def notes() -> list[str]:
        (table,) = tables([cell])
        (text,) = next(column for column in table.columns if column.header == "notes").cells
        return str(text).split("\n")

    assert notes() == ["PyTorch", "ours: prepared"]
    cell.outcomes = [outcome("portable", 1.0), outcome("PyTorch", 3.0, peer=True)]
    assert notes() == ["PyTorch"]


def test_the_time_for_a_cell_is_kept() -> None:
    clock = FakeClock()
    measured(clock, Pace(cell=2.0, most_rounds=10**6), ours=Script(), peer=Script())
    assert clock.now < 3


class Spinning:
    """A process whose threads spin for so many seconds after each run of one contender."""

    def __init__(self, seconds: float) -> None:
        self.clock = FakeClock()
        self.seconds = seconds
        self.spun = self.left = 0.0
        self.met: list[float] = []
        """How long they would have gone on when the other contender began to run."""

    def sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)
        spun = min(seconds, self.left)
        self.spun, self.left = self.spun + spun, self.left - spun

    def spins(self, now: float) -> float:
        self.left = self.seconds
        return 0.02

    def is_next(self, now: float) -> float:
        self.met.append(self.left)
        return 0.02


@pytest.mark.parametrize("spinning", ["ours", "peer"])
def test_threads_that_a_contender_left_spinning_are_waited_for(spinning: str) -> None:
    process = Spinning(0.1)
    scripts = {name: Script(process.is_next) for name in ("ours", "peer")}
    scripts[spinning] = Script(process.spins)
    harness = Harness(Pace(cell=0.5), process.clock, process.sleep, lambda: process.spun)
    cell = harness.measure(Scripted(process.clock, scripts), CASE)
    assert len(cell.outcomes[0].samples) >= 3
    verified_and_warm = 3
    assert max(process.met[verified_and_warm:]) < 1e-9


def test_threads_that_spin_for_ever_are_not_waited_for_long() -> None:
    process = Spinning(1e9)
    scripts = {"ours": Script(process.is_next), "peer": Script(process.spins)}
    pace = Pace(cell=0, least_rounds=1)
    Harness(pace, process.clock, process.sleep, lambda: process.spun).measure(
        Scripted(process.clock, scripts), CASE
    )
    assert process.spun < 2.1 * pace.rest


def test_a_drifting_clock_frequency_does_not_bend_the_ratio() -> None:
    """Everything becomes ten times slower within the run."""

    def slower(seconds: float) -> Script:
        return Script(lambda now: seconds * (1 + 9 * min(now, 5.0) / 5))

    cell = measured(FakeClock(), Pace(cell=5.0), ours=slower(0.02), peer=slower(0.01))
    ours, peer = cell.outcomes
    assert time_ratio(ours, peer) == pytest.approx(2, rel=0.15)
    assert ours.spread > 0.1


def test_a_wrong_result_is_not_timed() -> None:
    cell = measured(FakeClock(), ours=Script(result=3.0), peer=Script())
    ours, peer = cell.outcomes
    assert ours.failure == "wrong: 2 times the error allowed"
    assert not ours.timed
    assert peer.timed
    assert time_ratio(ours, peer) is None


def test_an_inexact_peer_is_timed_and_marked() -> None:
    cell = measured(FakeClock(), ours=Script(), peer=Script(result=3.0))
    assert cell.peers[0].timed
    assert not cell.peers[0].verified


@pytest.mark.parametrize("runs", [0, 1, 2, 7])
def test_a_failure_stops_nobody_else(runs: int) -> None:
    cell = measured(FakeClock(), ours=Script(fail_after=runs), peer=Script())
    ours, peer = cell.outcomes
    assert ours.failure == "the device fell over"
    assert not ours.timed
    assert len(peer.samples) >= Pace().least_rounds


def test_no_room_is_a_reason() -> None:
    script = Script(fail_after=0, error=OutOfMemoryError("no room for 3 GB"))
    assert measured(FakeClock(), ours=script).outcomes[0].failure == "no room for 3 GB"


def test_contenders_that_cannot_be_listed() -> None:
    class Broken(Scripted):
        def peers(self, case: Case) -> Peers:
            raise RuntimeError("no library")

    clock = FakeClock()
    cell = Harness(Pace(), clock, clock.advance).measure(Broken(clock, {}), CASE)
    assert cell.failure == "no library"


def test_an_interrupt_keeps_what_is_finished(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    fine = Scripted(clock, {"ours": Script()})
    broken = Scripted(clock, {"ours": Script(fail_after=0, error=KeyboardInterrupt())})
    cells = measure_all(
        [(fine, CASE), (broken, CASE), (fine, CASE)], Uncompiled(Pace(), clock, clock.advance)
    )
    assert len(cells) == 1
    assert "interrupted after 1 of 3" in capsys.readouterr().err


def test_enqueuing_leaves_the_work_out() -> None:
    clock = FakeClock()

    class Slow(FakeDevice):
        def synchronize(self) -> None:
            clock.advance(5.0)

    stopwatch = Stopwatch(Slow(), clock)
    assert stopwatch.enqueue(lambda: clock.advance(0.5), 4).wall == pytest.approx(0.5)
    assert stopwatch.run(lambda: clock.advance(0.5), 2).wall == pytest.approx(3.0)


def test_statistics() -> None:
    assert spread([1.0, 1.0, 9.0]) == 0
    assert spread([1.0, 2.0, 3.0]) == 0.5
    assert paired_ratio([2.0, 4.0, 60.0], [1.0, 2.0, 3.0]) == 2
    assert paired_ratio([2.0, 4.0, 3.0], [0.0, 2.0, 1.0]) == 2.5
    assert paired_ratio([0.0, 1.0], [1.0, 0.0]) is None


def test_the_time_for_a_run_is_shared_out() -> None:
    clock = FakeClock()
    planned = [(Scripted(clock, {"ours": Script(lambda now: 0.1)}), CASE)] * 40
    harness = Uncompiled(Pace(cell=10.0), clock, clock.advance)
    cells = measure_all(planned, harness, budget=60.0, clock=clock)
    assert clock.now < 61
    assert all(cell.outcomes[0].timed for cell in cells)
    assert harness.pace.cell == 10


def test_what_there_is_no_time_for_says_so() -> None:
    clock = FakeClock()
    planned = [(Scripted(clock, {"ours": Script(lambda now: 3.0)}), CASE)] * 9
    harness = Uncompiled(Pace(), clock, clock.advance)
    cells = measure_all(planned, harness, budget=29.0, clock=clock)
    assert clock.now < 29 + 18
    assert not cells[0].failure
    assert cells[0].ours[0].timed
    assert "the 29 s were over" in cells[-1].failure


def test_more_than_the_device_holds_is_not_tried() -> None:
    clock = FakeClock()
    scripted = Scripted(clock, {"ours": Script()})
    device = FakeDevice()
    device.capabilities = replace(device.capabilities, global_memory=10**5)
    cell = Harness(Pace(), clock, clock.advance).measure(scripted, Case(device, float32, (4,)))
    assert cell.failure.startswith("needs 0.000931 GiB, the device has")
    assert scripted.scripts["ours"].runs == 0


def test_every_state_of_a_cell_can_be_shown() -> None:
    cells = [
        measured(FakeClock(), ours=Script(), peer=Script()),
        measured(FakeClock(), ours=Script(fail_after=1), peer=Script(result=5.0)),
        measured(FakeClock(), ours=Script(result=5.0), peer=Script(fail_after=0)),
        Cell("scripted", "fake", "f32", (4,), "4", None, failure="[no] library"),
        Cell("other", "fake", "f32", (4,), "4", None, failure="[no] library"),
    ]
    assert [table.row_count for table in tables(cells)] == [4, 1]
    assert [ladder_table(cell, {}).row_count for cell in cells] == [2, 2, 2, 1, 1]


def test_compiling_runs_ours_once_and_hides_failures() -> None:
    clock = FakeClock()
    scripts = {"ours": Script(), "broken": Script(fail_after=0), "peer": Script()}
    scripted = Scripted(clock, scripts)
    planned = distinct([(scripted, CASE)] * 3)
    assert planned == [(scripted, CASE)]
    compiling = Compiling(planned)
    assert compiling.wait(10) == (1, 1)
    compiling.stop()
    assert [script.runs for script in scripts.values()] == [1, 0, 0]


def test_helpers_compile_what_is_kept() -> None:
    clock, forgetful = FakeClock(), FakeDevice("forgetful")
    forgetful.keeps_programs = False
    first, second, third = (Scripted(clock, {}) for _ in range(3))
    lost = (second, replace(CASE, device=forgetful))
    planned = [(first, CASE), lost, (second, CASE), (third, CASE)]
    own, others = shares(planned, 2)
    assert own == [lost, (third, CASE), (second, CASE), (first, CASE)]
    assert others == [[(first, CASE), (third, CASE)], [(second, CASE)]]
    assert shares(planned, 0) == (own, [])


def test_sizes_take_turns_where_time_is_short() -> None:
    clock = FakeClock()
    scripted = Scripted(clock, {"ours": Script(lambda now: 1.0)})
    other = Scripted(clock, {"ours": Script(lambda now: 1.0)})
    other.name = "other"
    planned = [(op, Case(CASE.device, float32, (n,))) for op in (scripted, other) for n in (4, 5)]
    harness = Uncompiled(Pace(), clock, clock.advance)
    cells = measure_all(planned, harness, budget=8.0, clock=clock)
    assert [(c.operation, c.size, bool(c.failure)) for c in cells] == [
        ("scripted", (4,), False),
        ("scripted", (5,), True),
        ("other", (4,), False),
        ("other", (5,), True),
    ]


def test_compiling_stops_after_what_is_under_way() -> None:
    begun, go = Event(), Event()

    def seconds(now: float) -> float:
        begun.set()
        assert go.wait(10)
        return 0.0

    script = Script(seconds)
    scripted = [Scripted(FakeClock(), {"ours": script}) for _ in range(3)]
    compiling = Compiling([(operation, CASE) for operation in scripted])
    assert begun.wait(10)
    assert not compiling.stop(0.01)
    Timer(0.05, go.set).start()
    assert compiling.stop()
    assert script.runs == 1
    assert compiling.wait(0) == (1, 3)
