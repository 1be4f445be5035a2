"""The consortium's tests of the standard, a few examples each; whole, they take minutes.

The suite (https://github.com/data-apis/array-api-tests) lies where ``PORTABLE_ARRAY_API_TESTS``
says, or beside the project in ``shared/array-api-tests``; `--max-examples 100` is its own measure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from portable import registry
from portable.errors import BackendUnavailableError

_PROJECT: Final = Path(__file__).parents[2]
_BESIDE: Final = _PROJECT.parent / "shared" / "array-api-tests"
_NEEDS: Final = ("hypothesis", "ndindex", "pytest_jsonreport")

_BOUND: Final = "exec('import portable; xp = portable.xp(api_version=\"{}\")')"
_OPTIONS: Final = "-q -W ignore -p no:cacheprovider --disable-deadline --derandomize"
_QUICK: Final = (
    "test_has_names",
    "test_inspection_functions",
    "test_manipulation_functions",
    "test_searching_functions",
    "test_set_functions",
    "test_signatures",
)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, since the suite keeps what it finds in its folder."""
    folder = Path(os.environ.get("PORTABLE_ARRAY_API_TESTS") or _BESIDE)
    if not (folder / "array_api_tests").is_dir():
        pytest.skip(f"the consortium's suite is not in {folder} (PORTABLE_ARRAY_API_TESTS)")
    for module in _NEEDS:
        if find_spec(module) is None:
            pytest.skip(f"the consortium's suite needs {module}, which is not installed")
    return shutil.copytree(
        folder,
        tmp_path_factory.mktemp("consortium") / "suite",
        ignore=shutil.ignore_patterns(".git", ".hypothesis", "__pycache__"),
    )


@pytest.mark.parametrize(
    ("name", "version", "files"),
    [
        ("simulator:arrays", "2025.12", ()),
        ("simulator:arrays", "2024.12", _QUICK),
        ("cpu:native-arrays", "2025.12", _QUICK),
        ("opencl", "2025.12", _QUICK),
    ],
)
def test_the_consortiums_tests_pass(
    suite: Path, name: str, version: str, files: tuple[str, ...]
) -> None:
    try:
        registry.device(name)
    except BackendUnavailableError as error:
        pytest.skip(str(error))
    chosen = [f"array_api_tests/{file}.py" for file in files] or ["array_api_tests"]
    environment = os.environ | {
        "ARRAY_API_TESTS_VERSION": version,
        "ARRAY_API_TESTS_MODULE": _BOUND.format(version),
        "PORTABLE_BACKEND": name,
    }
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *_OPTIONS.split(), "--max-examples=1", *chosen],
        cwd=suite,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert " passed" in run.stdout
