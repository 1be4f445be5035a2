"""What is installed is what is in the tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "portable": "portable",
    "backends": "portable_backends",
    "bench": "portable_bench",
    "data": "portable_data",
}
SHIPPED = {".py", ".typed", ".json", ".csv", ".txt", ".html", ".css", ".js", ".png"}


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel built from a copy of the tree, without metadata."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    build = (
        "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", build, str(copy)],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = copy.glob("*.whl")
    names = zipfile.ZipFile(file).namelist()
    return {name for name in names if ".dist-info/" not in name}


def _tree() -> set[str]:
    names = set()
    for folder, package in FOLDERS.items():
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in SHIPPED and "__pycache__" not in file.parts:
                names.add(f"{package}/{file.relative_to(ROOT / folder).as_posix()}")
    return names


def test_the_wheel_holds_the_tree(wheel: set[str]) -> None:
    assert wheel == _tree()


def test_each_package_says_that_it_is_typed(wheel: set[str]) -> None:
    assert {f"{package}/py.typed" for package in FOLDERS.values()} <= wheel


def test_every_entry_point_names_a_file(wheel: set[str], settings: dict[str, Any]) -> None:
    groups = settings["project"]["entry-points"]
    values = [value for group in groups.values() for value in group.values()]
    for value in [*values, *settings["project"]["scripts"].values()]:
        module = value.partition(":")[0].replace(".", "/")
        assert {f"{module}.py", f"{module}/__init__.py"} & wheel, value
