from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from portable import registry
from portable_backends import drivers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reads folders")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PORTABLE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setattr(drivers, "_SYSTEM_FOLDER", tmp_path / "vendors")
    monkeypatch.setattr(drivers, "_LIBRARY_FOLDERS", ())
    monkeypatch.setattr(drivers, "_from_pip", lambda: iter(()))
    (tmp_path / "vendors").mkdir()
    return tmp_path


def _register(folder: Path, name: str, line: str) -> None:
    (folder / "vendors" / f"{name}.icd").write_text(line + "\n")


def test_bare_names_become_paths(folder: Path) -> None:
    (folder / "libvendor.so.1").touch()
    _register(folder, "vendor", "libvendor.so.1")
    _register(folder, "elsewhere", "libunknown.so")
    assert set(drivers.find_drivers()) == {str(folder / "libvendor.so.1"), "libunknown.so"}


def test_known_libraries_need_no_registration(folder: Path) -> None:
    (folder / "libnvidia-opencl.so.1").touch()
    assert drivers.find_drivers() == [str(folder / "libnvidia-opencl.so.1")]


def test_one_library_is_named_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "_from_pip", lambda: iter(["/pip/libintelocl.so"]))
    _register(folder, "intel", "/opt/intel/libintelocl.so")
    assert drivers.find_drivers() == ["/pip/libintelocl.so"]


def test_the_folder_has_one_file_a_driver_and_is_found_again() -> None:
    lines = ["/a/libone.so", "/b/libtwo.so.1"]
    folder = drivers.write_folder(lines)
    assert [f.read_text().strip() for f in sorted(folder.glob("*.icd"))] == lines
    assert drivers.write_folder(lines) == folder
    assert drivers.write_folder(lines[:1]) != folder


def test_an_unwritable_cache_is_tolerated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cache").write_text("no folder")
    assert list(drivers.write_folder(["/a/libone.so"]).glob("*.icd"))


def test_announce_respects_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", "/mine")
    drivers.announce()
    assert os.environ["OCL_ICD_VENDORS"] == "/mine"


def test_announce_points_loaders_at_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", "")
    _register(folder, "vendor", "/a/libvendor.so")
    drivers.announce()
    named = Path(os.environ["OCL_ICD_VENDORS"])
    assert [f.read_text() for f in named.glob("*.icd")] == ["/a/libvendor.so\n"]


def test_devices_are_listed_once() -> None:
    names = [d.name for d in registry.devices()]
    assert len(names) == len(set(names))
