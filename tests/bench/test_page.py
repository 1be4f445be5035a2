"""The report in a browser: it draws itself without complaint, sorts, and needs no network."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from portable_bench.operation import Work
from portable_bench.page import page
from portable_bench.results import Cell, Outcome, Results
from tests.bench.fakes import ENVIRONMENT, outcome
from tests.support.patience import PATIENCE

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")

NONE = "\N{EN DASH}"

PROBE = """<script>
const rows = (name) => {
  const heads = [...document.querySelectorAll("#all thead th")];
  const column = heads.findIndex((h) => h.textContent.trim() === name);
  const lines = [...document.querySelectorAll("#all tbody tr")];
  return lines.map((tr) => tr.children[column].textContent);
};
const buttons = () => [...document.querySelectorAll("button")];
const click = (name) => buttons().find((b) => b.textContent === name).click();
const found = { loaded: rows("time") };
click("time");
found.up = rows("time");
click("time");
found.down = rows("time");
click("of the roof");
found.heat = document.querySelector("#heat strong").textContent;
found.marks = document.querySelectorAll("#roofline circle").length;
found.lines = document.querySelectorAll("#scaling path").length;
found.fits = document.querySelector("#fits").textContent;
found.machine = document.querySelector("#machine").textContent;
found.wide = document.documentElement.scrollWidth > window.innerWidth;
const filter = document.getElementById("filter");
filter.value = "band";
filter.dispatchEvent(new Event("input"));
found.filtered = rows("operation");
document.title = JSON.stringify(found);
</script></body>"""


def results() -> Results:
    """Every state of a cell, and a text that would end a script if it could."""
    cells = [
        Cell(
            "copy", "cpu", "f32", (8,), "8 MiB", Work(0, 1e8), outcomes=[outcome("portable", 1e-3)]
        ),
        Cell("fma", "cpu", "f32", (1,), "1", Work(1e9, 0), outcomes=[outcome("portable", 1e-2)]),
        *(
            Cell(
                "gemm",
                "cpu",
                "f32",
                (n, n, n),
                str(n),
                Work(2.0 * n**3, 12.0 * n**2),
                outcomes=[outcome("portable", 4e-10 * n**3), outcome("NumPy", 2e-10 * n**3, True)],
            )
            for n in (128, 256, 512)
        ),
        Cell("band", "cpu", "f64", (64, 8), "64x8", Work(1e6, 1e4), failure="no </script> room"),
        Cell(
            "launch", "cpu", "f32", (1,), "1", None, outcomes=[Outcome("warm", False, failure="x")]
        ),
    ]
    completed = [{"file": "rest.json", "time": "2026-01-02T04:05:06+00:00"}]
    return Results(ENVIRONMENT | {"completed": completed}, cells)


def test_one_file_that_asks_for_nothing() -> None:
    text = page(results())
    assert not re.search(r"""(src|href)\\s*=\\s*["']?(https?:)?//""", text)
    assert "@import" not in text
    assert text.count("</script>") == 2
    assert "/*" + "DATA*/" not in text


@needs_browser
@pytest.mark.parametrize("width", [1200, 400])
def test_in_a_browser(tmp_path: Path, width: int) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(results()).replace("</body>", PROBE), encoding="utf-8")
    found = browse(path, width)
    as_number = {"µs": 1e-6, "ms": 1e-3, "s": 1.0}

    def times(texts: list[str]) -> list[float]:
        pairs = (text.split() for text in texts if text != NONE)
        return [float(number) * as_number[unit] for number, unit in pairs]

    assert len(found["loaded"]) == 10
    assert times(found["up"]) == sorted(times(found["loaded"]))
    assert times(found["down"]) == sorted(times(found["loaded"]), reverse=True)
    assert found["up"][-2:] == found["down"][-2:] == [NONE, NONE]
    assert found["heat"].endswith("%")
    assert found["marks"] == 6
    assert found["lines"] == 2
    assert "M^3.00" in found["fits"]
    assert "completed byrest.json (2026-01-02 04:05)" in found["machine"]
    assert found["filtered"] == ["band"]
    assert not found["wide"]


def browse(path: Path, width: int) -> dict[str, list[str]]:
    import html
    import json

    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={path.parent / 'profile'}",
            f"--window-size={width},900",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title
    found: dict[str, list[str]] = json.loads(html.unescape(title[1]))
    return found
