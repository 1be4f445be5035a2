"""The heat map as a picture shows the largest problem beside the fastest library."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl

from portable_bench.plots import plot_heat
from portable_bench.results import Cell, Results
from tests.bench.fakes import ENVIRONMENT, outcome


def test_the_largest_problem_is_shown_beside_the_fastest_library(tmp_path: Path) -> None:
    ours, slow = outcome("portable", 2e-3), outcome("slow", 8e-3, peer=True)
    beside = [ours, slow, outcome("fast", 1e-3, peer=True)]
    cells = [
        Cell("gemm", "cpu", "f32", (8, 8), "8", None, outcomes=[ours, slow]),
        Cell("gemm", "cpu", "f32", (64, 64), "64", None, outcomes=beside),
        Cell("gemm", "cpu", "f32", (99, 99), "99", None, outcomes=[ours]),
        Cell("fma", "cpu", "f64", (1,), "1 GFLOP", None, outcomes=[ours]),
        Cell("band", "cpu", "f32", (9,), "9", None, failure="out of time"),
    ]
    path = tmp_path / "heat.svg"
    with mpl.rc_context({"svg.fonttype": "none"}):
        plot_heat(Results(ENVIRONMENT, cells), path)
    texts = re.findall(r">([^<>\n]+)</text>", path.read_text())
    times = "0.5\N{MULTIPLICATION SIGN}"
    assert [x for x in texts if x in {times, "64", "8", "99", "2 ms", "1 GFLOP", "9"}] == [
        times,
        "64",
        "2 ms",
        "1 GFLOP",
    ]
    assert {"gemm f32", "fma f64", "cpu"} <= set(texts)
    assert "band f32" not in texts
