"""What is installed is what is in the tree."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import portable

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "portable": "portable",
    "backends": "portable_backends",
    "bench": "portable_bench",
    "data": "portable_data",
}
SHIPPED = {".py", ".typed", ".json", ".csv", ".txt", ".html", ".css", ".js", ".png", ".ll"}
PAPERS = ("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md")


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree in which a wheel and a source distribution were built."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "MANIFEST.in", *PAPERS):
        shutil.copy(ROOT / name, copy)
    for folder in (*FOLDERS, "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    build = "from setuptools import build_meta as b; b.build_sdist('.'); b.build_wheel('.')"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=copy, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "absent from the" not in done.stderr
    return copy


@pytest.fixture(scope="module")
def wheel(built: Path) -> set[str]:
    """The names in the wheel, without metadata."""
    (file,) = built.glob("*.whl")
    names = zipfile.ZipFile(file).namelist()
    return {name for name in names if ".dist-info/" not in name}


def _tree() -> set[str]:
    """All but what was measured, which only the source distribution holds."""
    names = set()
    for folder, package in FOLDERS.items():
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in SHIPPED and not {"__pycache__", "results"} & set(file.parts):
                names.add(f"{package}/{file.relative_to(ROOT / folder).as_posix()}")
    return names


def test_the_wheel_holds_the_tree(wheel: set[str]) -> None:
    assert wheel == _tree()


def test_the_source_distribution_holds_the_tests_and_what_they_read(built: Path) -> None:
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = (ROOT / folder for folder in (*FOLDERS, "tests"))
    files = (f for folder in folders for f in folder.rglob("*") if f.suffix in SHIPPED)
    wanted = {f.relative_to(ROOT).as_posix() for f in files}
    assert wanted | set(PAPERS) <= names


def test_the_version_is_that_of_the_distribution(settings: dict[str, Any]) -> None:
    assert portable.__version__ == settings["project"]["version"]


def test_each_package_says_that_it_is_typed(wheel: set[str]) -> None:
    assert {f"{package}/py.typed" for package in FOLDERS.values()} <= wheel


def test_every_entry_point_names_a_file(wheel: set[str], settings: dict[str, Any]) -> None:
    groups = settings["project"]["entry-points"]
    values = [value for group in groups.values() for value in group.values()]
    for value in [*values, *settings["project"]["scripts"].values()]:
        module = value.partition(":")[0].replace(".", "/")
        assert {f"{module}.py", f"{module}/__init__.py"} & wheel, value


LATER = """
import sys
import portable

assert not {"portable.array", "portable.linalg"} & set(sys.modules)
assert {"fuse", "use"} <= set(dir(portable))
assert portable.array.concat
assert portable.linalg.gemm
assert portable.numerics.interp
assert portable.fuse.__module__ == "portable.array.fuse"
"""


def test_the_namespace_of_arrays_is_imported_when_asked_for() -> None:
    subprocess.run([sys.executable, "-c", LATER], check=True)
    with pytest.raises(AttributeError, match="portable has no arrays"):
        _ = portable.arrays  # type: ignore[attr-defined]


def test_one_version_everywhere(settings: dict[str, Any]) -> None:
    version = settings["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f'version: "{version}"' in (ROOT / "conda" / "recipe.yaml").read_text()
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert version in headings[:2]


def test_conda_asks_for_what_pip_does(settings: dict[str, Any]) -> None:
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    for wanted in settings["project"]["dependencies"]:
        name, _, least = wanted.partition(";")[0].strip().partition(">=")
        assert f"- {name} >={least}\n" in recipe
