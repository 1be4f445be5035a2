"""Every block of Python in the documentation runs, in order, on devices of several backends."""

from __future__ import annotations

import importlib
import linecache
import re
from contextlib import suppress
from functools import reduce
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import portable as pt
from portable.backend import Device
from portable.cli import main

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if BLOCK.search(page.read_text())
]

NAME = re.compile(r"\b(portable(?:_backends|_bench|_data)?(?:\.[A-Za-z_]\w*)+)")
QUOTED_NAME = re.compile(rf"`{NAME.pattern}`")
FILE = re.compile(r"\b(?:portable|backends|bench|tests|docs|examples)/[\w./-]*\w")
COMMAND = re.compile(r"(?:^\$ |^|`|&& )portable ([a-z][^`\n#|&]*)", re.MULTILINE)
INVENTED = {"bench/operations/logsumexp.py"}
"""Files that a guide has its readers write."""


def blocks(page: Path) -> list[str]:
    """The blocks of a page, each on the lines where it stands, for messages and for kernels."""
    text = page.read_text()
    return [
        "\n" * text[: match.start(1)].count("\n") + match.group(1) for match in BLOCK.finditer(text)
    ]


@pytest.mark.needs_processor
@pytest.mark.parametrize(
    "page",
    PAGES,
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_blocks_run(
    page: Path, device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    before = pt.device()
    pt.use(device)
    names: dict[str, Any] = {"__name__": "page"}
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


PUBLIC = (
    "conv", "errors", "forecast", "gf2", "lang", "linalg", "nn", "numerics", "parallel",
    "primitives", "random", "typing",
)  # fmt: skip
WHOLE = {"portable.errors"}
"""Modules of which the reference has every name without naming them."""


@pytest.mark.parametrize("module", ["portable", *(f"portable.{name}" for name in PUBLIC)])
def test_every_public_name_is_in_the_reference(module: str) -> None:
    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    names = set(getattr(importlib.import_module(module), "__all__", ())) - {"__version__"}
    # Dtypes are listed; the modules have pages.
    names -= {n for n in names if f"`{n}`" in pages or f"::: {module}.{n}\n" in pages + "\n"}
    names -= {n for n in names if f"# {module}.{n}\n" in pages}
    assert not names or module in WHOLE


def attribute(thing: Any, name: str) -> Any:
    """What a module or class has by a name; of a field the annotation will do."""
    fields = getattr(thing, "__annotations__", {})
    return fields[name] if name in fields else getattr(thing, name)


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or what one has."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        with suppress(ImportError, AttributeError):
            reduce(attribute, parts[length:], importlib.import_module(".".join(parts[:length])))
            return True
    return False


def test_names_and_files_that_texts_tell_of_are_there() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    sources = [f for x in ("portable", "backends", "bench") for f in (ROOT / x).rglob("*.py")]
    names = {(page.name, name) for page in pages for name in NAME.findall(page.read_text())}
    paths = {(page.name, path) for page in pages for path in FILE.findall(page.read_text())}
    names |= {(x.name, name) for x in sources for name in QUOTED_NAME.findall(x.read_text())}
    groups = entry_points().groups
    missing = {pair for pair in names if pair[1] not in groups and not is_there(pair[1])}
    missing |= {x for x in paths if x[1] not in INVENTED and not any(ROOT.glob(x[1] + "*"))}
    assert len(names) > 500
    assert missing == set()


def options_of(command: click.Command) -> set[str]:
    """The options of a command; of a group, those of what it runs unless told otherwise, too."""
    words = {word for x in command.params for word in (*x.opts, *x.secondary_opts)}
    if isinstance(command, click.Group) and "run" in command.commands:
        words |= options_of(command.commands["run"])
    return words | {"--help"}


def test_commands_that_pages_show_have_these_options() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    lines = [line for page in pages for line in COMMAND.findall(page.read_text())]
    assert len(lines) > 30
    for line in lines:
        command: click.Command = main
        words = line.split()
        while isinstance(command, click.Group) and words:
            inner = command.get_command(click.Context(command), words[0])
            if inner is None:
                break
            command, words = inner, words[1:]
        assert command is not main, line
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given <= options_of(command), line


def test_every_variable_of_the_environment_is_in_the_settings() -> None:
    text = "\n".join(
        file.read_text()
        for folder in ("portable", "backends", "bench", "tests")
        for file in (ROOT / folder).rglob("*.py")
    )
    used = set(re.findall(r"\"(PORTABLE_[A-Z_]*[A-Z])\"", text))
    page = (ROOT / "docs" / "reference" / "settings.md").read_text()
    assert {name for name in used if f"`{name}`" not in page} == set()


@pytest.mark.filterwarnings("ignore::pyopencl.CompilerWarning")
def test_the_backend_of_the_guide_runs_kernels_and_array_functions() -> None:
    (text,) = blocks(ROOT / "docs" / "how-to" / "backend.md")
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(text, "<backend.md>", "exec", dont_inherit=True), names)
    found = next((d for d in pt.devices() if d.backend == "opencl"), None)
    if found is None:
        pytest.skip("needs an OpenCL device")
    device = names["MyDevice"](found._runtime.device)  # type: ignore[attr-defined]
    x = device.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    added = x[:, ::-1] + 1
    assert device.to_numpy(added).tolist() == [[3, 2, 1], [6, 5, 4]]
    assert device.to_numpy(x.T).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert float(x.sum()) == 15
