"""Every block of Python in the documentation runs, in order, on the device that is the default."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import pytest

import portable as pt

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if BLOCK.search(page.read_text())
]
NOT_ALONE = {"README.md"}
"""Pages whose blocks show parts of programs, with names that they do not define."""


def blocks(page: Path) -> list[str]:
    """The blocks of a page, each on the lines where it stands, for messages and for kernels."""
    text = page.read_text()
    return [
        "\n" * text[: match.start(1)].count("\n") + match.group(1) for match in BLOCK.finditer(text)
    ]


@pytest.mark.needs_processor
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in NOT_ALONE],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    names: dict[str, Any] = {"__name__": "page"}
    before = pt.device()
    try:
        for number, text in enumerate(blocks(page)):
            file = f"<{page.name} {number}>"
            # Kernels read their source again, which is not in a file of its own.
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            exec(compile(text, file, "exec", dont_inherit=True), names)
    finally:
        pt.use(before)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_blocks_are_python(page: Path) -> None:
    for text in blocks(page):
        compile(text, str(page), "exec")
