from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from portable import registry
from portable.system import console, private_folders
from portable_backends.common import drivers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reads folders")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PORTABLE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setattr(drivers, "_SYSTEM_FOLDER", tmp_path / "vendors")
    monkeypatch.setattr(drivers, "_LIBRARY_FOLDERS", ())
    monkeypatch.setattr(drivers, "_from_pip", lambda: iter(()))
    monkeypatch.setattr(private_folders, "_made", {})
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


def test_an_unusable_cache_is_tolerated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cache").write_text("no folder")
    monkeypatch.setattr(console, "_told", set())
    with pytest.warns(UserWarning, match="PORTABLE_CACHE_DIR"):
        found = drivers.write_folder(["/a/libone.so"])
    assert list(found.glob("*.icd"))


def test_nothing_is_written_where_nothing_is_to_be_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTABLE_CACHE", "0")
    assert list(drivers.write_folder(["/a/libone.so"]).glob("*.icd"))
    assert not (folder / "cache").exists()


def test_what_somebody_else_could_have_planted_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the cache or the folder in it is open to others."""
    monkeypatch.setattr(console, "_told", set())
    named = drivers.write_folder(["/a/libone.so"])
    (named / "99.icd").write_text("/planted.so\n")
    named.chmod(0o777)
    other = drivers.write_folder(["/a/libone.so"])
    assert [f.read_text() for f in other.glob("*.icd")] == ["/a/libone.so\n"]
    assert other.parent != folder / "cache"
    (folder / "cache").chmod(0o777)
    with pytest.warns(UserWarning, match="others can write to"):
        assert drivers.write_folder(["/a/libone.so"]) == other


def test_the_folder_holds_what_it_should_and_no_more() -> None:
    named = drivers.write_folder(["/a/libone.so", "/b/libtwo.so"])
    one, _ = sorted(named.glob("*.icd"))
    one.write_bytes(b"\xff\xfe no text")
    (named / "99.icd").write_bytes(b"\xff")
    assert drivers.write_folder(["/a/libone.so", "/b/libtwo.so"]) == named
    assert [f.read_text() for f in sorted(named.glob("*.icd"))] == [
        "/a/libone.so\n",
        "/b/libtwo.so\n",
    ]


def test_names_of_drivers_need_not_be_unicode(folder: Path) -> None:
    (folder / "vendors" / "odd.icd").write_bytes(b"/a/lib\xff.so\n")
    (found,) = drivers.find_drivers()
    (file,) = drivers.write_folder([found]).glob("*.icd")
    assert file.read_bytes() == b"/a/lib\xff.so\n"


def test_a_folder_of_a_parent_process_that_is_gone_is_made_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", str(folder / "gone" / "icd-0123456789abcdef"))
    _register(folder, "vendor", "/a/libvendor.so")
    drivers.announce()
    assert Path(os.environ["OCL_ICD_VENDORS"]).is_dir()


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


def _maps(folder: Path, monkeypatch: pytest.MonkeyPatch, *libraries: str) -> None:
    """What a process has in memory, and nothing known yet."""
    lines = [f"7f00-7f01 r-xp 0000 08:01 1    /usr/lib/{library}\n" for library in libraries]
    (folder / "maps").write_text("".join(lines))
    monkeypatch.setattr(drivers, "_MAPPED", folder / "maps")
    monkeypatch.setattr(drivers, "_hidden", [])
    monkeypatch.setattr(console, "_told", set())
    monkeypatch.setenv("OCL_ICD_VENDORS", "")
    (folder / "libvendor.so.1").touch()
    _register(folder, "vendor", "libvendor.so.1")


def test_drivers_that_a_started_loader_does_not_know_are_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _maps(folder, monkeypatch, "libpocl-21062cec.so")
    drivers.announce()
    with pytest.warns(
        UserWarning, match=r"libvendor\.so\.1; ask Portable first .*OCL_ICD_VENDORS="
    ):
        drivers.warn_of_hidden()
    drivers.warn_of_hidden()


@pytest.mark.parametrize("loaded", [(), ("libvendor.so.1",), ("libpocl-2.so", "libvendor.so.1")])
def test_nothing_is_told_where_every_driver_is_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch, loaded: tuple[str, ...]
) -> None:
    _maps(folder, monkeypatch, *loaded)
    drivers.announce()
    drivers.warn_of_hidden()


def test_devices_are_listed_once() -> None:
    names = [d.name for d in registry.devices()]
    assert len(names) == len(set(names))


def test_devices_that_an_earlier_import_of_dpctl_hides_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sycl = pytest.importorskip("portable_backends.sycl.backend")
    pytest.importorskip("dpnp")
    monkeypatch.setattr(console, "_told", set())
    monkeypatch.setattr(sycl, "was_used_before", lambda _: True)
    monkeypatch.setattr(sycl, "_working", lambda _: [])
    monkeypatch.setattr("portable_backends.opencl.discovery.find", lambda: (object(),))
    backend = sycl.SYCLBackend()
    with pytest.warns(UserWarning, match=r"sycl has no devices: .* dpctl was imported before"):
        assert not backend.devices()
    assert "dpctl was imported before" in backend.unavailable().reason
    monkeypatch.setattr("portable_backends.opencl.discovery.find", lambda: ())
    assert not sycl.SYCLBackend().devices()  # nothing is missed
