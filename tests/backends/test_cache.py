from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from portable import registry
from portable.backend import Device
from portable.cli import main
from portable.system import cache, console, private_folders
from tests.support.axpy import axpy, bind, groups

posix = pytest.mark.skipif(os.name != "posix", reason="only POSIX systems have such permissions")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PORTABLE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("PORTABLE_CACHE", raising=False)
    monkeypatch.setattr(console, "_told", set())
    monkeypatch.setattr(private_folders, "_made", {})
    return tmp_path


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_was_stored_is_loaded() -> None:
    name = cache.key("source", "device")
    assert cache.load(name) is None
    cache.store(name, b"binary")
    assert cache.load(name) == b"binary"


def test_keys_tell_parts_apart() -> None:
    keys = {cache.key("ab", "c"), cache.key("a", "bc"), cache.key("abc"), cache.key("ab", "c", "")}
    assert len(keys) == 4


@pytest.mark.parametrize("damage", ["cut", "changed", "emptied", "older format"])
def test_a_damaged_file_is_ignored_and_removed(folder: Path, damage: str) -> None:
    name = cache.key("source")
    cache.store(name, b"binary")
    (file,) = _files(folder)
    whole = file.read_bytes()
    file.write_bytes(
        {
            "cut": whole[:-1],
            "changed": whole[:-1] + b"Y",
            "emptied": b"",
            "older format": b"portable-cache-0\n" + whole,
        }[damage]
    )
    assert cache.load(name) is None
    assert not file.exists()


def test_an_unusable_folder_is_told_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = folder / "file"
    blocker.write_text("not a folder")
    monkeypatch.setenv("PORTABLE_CACHE_DIR", str(blocker / "below"))
    with pytest.warns(UserWarning, match=r"PORTABLE_CACHE_DIR names .* \(Not a directory\)"):
        cache.store(cache.key("source"), b"binary")
    assert cache.load(cache.key("source")) == b"binary"


def test_a_new_folder_is_the_users_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_CACHE_DIR", str(folder / "new"))
    cache.store(cache.key("source"), b"binary")
    (file,) = _files(folder)
    assert {p.stat().st_mode & 0o777 for p in file.parents[:3]} == {0o700}


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o777])
def test_a_folder_that_others_can_write_to_is_not_used(folder: Path, mode: int) -> None:
    name = cache.key("source")
    cache.store(name, b"planted")
    folder.chmod(mode)
    with pytest.warns(UserWarning, match=f"others can write to {folder}.*chmod go-w"):
        assert cache.load(name) is None
    cache.store(name, b"binary")
    assert cache.load(name) == b"binary"
    folder.chmod(0o700)
    assert cache.load(name) == b"planted"


@posix
@pytest.mark.parametrize("above", [0, 1, 2])
def test_nothing_below_is_taken_that_others_can_write_to(folder: Path, above: int) -> None:
    name = cache.key("source")
    cache.store(name, b"planted")
    (file,) = _files(folder)
    (file, *file.parents)[above].chmod(0o777)
    assert cache.load(name) is None


@posix
def test_a_folder_of_another_user_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = cache.key("source")
    cache.store(name, b"planted")
    monkeypatch.setattr(private_folders, "_ROOT", -1)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.warns(UserWarning, match="belongs to another user"):
        assert cache.load(name) is None


def test_the_temporary_folder_goes_with_the_process_and_stays_with_a_forked_child(
    folder: Path,
) -> None:
    program = (
        "import os, warnings; warnings.simplefilter('ignore'); from portable.system import cache\n"
        "where = cache.folder(); print(where, where.is_dir(), flush=True)\n"
        "if hasattr(os, 'fork') and os.fork() == 0: raise SystemExit\n"
        "hasattr(os, 'fork') and os.wait(); print(where.is_dir())"
    )
    (folder / "file").write_text("not a folder")
    environment = os.environ | {"PORTABLE_CACHE_DIR": str(folder / "file"), "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    where, there, still = done.stdout.split()
    assert Path(where).parent == folder
    assert (there, still) == ("True", "True")
    assert sorted(p.name for p in folder.iterdir()) == ["file"]


def test_temporary_folders_of_killed_processes_are_removed_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(private_folders, "_made", {})
    monkeypatch.setattr(private_folders, "_runs", lambda process: process == 1)
    for name in ("1-runs", "2-new", "3-old"):
        (folder / f"portable-private-{name}").mkdir()
        if name != "2-new":
            os.utime(folder / f"portable-private-{name}", (0, 0))
    made = private_folders.temporary()
    assert private_folders.temporary() == made
    left = {p.name.removeprefix("portable-private-") for p in folder.iterdir()}
    assert left == {"1-runs", "2-new", made.name.removeprefix("portable-private-")}


def test_it_can_be_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_CACHE", "0")
    cache.store(cache.key("source"), b"binary")
    assert cache.load(cache.key("source")) is None
    assert not _files(folder)


def test_concurrent_writers_leave_one_whole_file(folder: Path) -> None:
    name = cache.key("source")
    content = b"x" * 100_000
    threads = [threading.Thread(target=cache.store, args=(name, content)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.load(name) == content
    assert len(_files(folder)) == 1


@pytest.mark.needs_processor
@pytest.mark.parametrize("damage", [b"", b"rubbish"])
def test_a_damaged_program_costs_a_compilation(folder: Path, damage: bytes) -> None:
    _run_on_cpu()
    for file in _files(folder):
        file.write_bytes(damage)
    _run_on_cpu()


@pytest.mark.needs_processor
def test_a_program_that_its_driver_refuses_costs_a_compilation(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_on_cpu()
    monkeypatch.setattr(cache, "load", lambda _name: b"whole, but no binary of this driver")
    _run_on_cpu()
    assert _files(folder)


@pytest.mark.needs_processor
def test_kept_programs_are_loaded_by_every_runtime(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none is kept where that is not wanted."""
    for device in registry.devices_of_backend("cpu"):
        runtime = getattr(device, "_runtime", None)
        if runtime is None:  # LLVM in this process
            continue
        for keeps in (False, True):
            before = len(_files(folder))
            monkeypatch.setattr(runtime, "keeps", keeps)
            _run_on_cpu(device)
            assert (len(_files(folder)) > before) == keeps
        with monkeypatch.context() as patch:
            patch.setattr(runtime, "_from_source", None)
            _run_on_cpu(device)


def _run_on_cpu(device: Device | None = None) -> None:
    device = device or registry.device("cpu")
    x, y = np.zeros(10, np.float32), np.ones(10, np.float32)
    device.compile(axpy(device)).launch(groups(10), bind(device, x, y, 3.0, 10))
    np.testing.assert_array_equal(x, np.float32(3))


def _stored(number: int, size: int = 1000) -> str:
    name = cache.key("source", str(number))
    cache.store(name, b"x" * size)
    return name


def _kept(names: list[str]) -> list[int]:
    return [i for i, name in enumerate(names) if cache._path(name).exists()]


def test_what_was_not_used_for_longest_goes(folder: Path) -> None:
    cache.set_limit(12_000)
    names = [_stored(i) for i in range(10)]
    for i, name in enumerate(names):
        os.utime(cache._path(name), (1000 + i, 1000 + i))
    assert cache.load(names[0]) is not None
    names += [_stored(10), _stored(11)]
    assert cache.usage().nbytes <= 12_000
    kept = _kept(names)
    assert {0, 10, 11} <= set(kept)
    assert 1 not in kept
    assert kept == [0, *range(kept[1], 12)]
    cache.set_limit(3500)
    assert _kept(names) == [0, 10, 11]
    assert cache.limit() == 3500


def test_the_limit_that_is_set(folder: Path) -> None:
    assert cache.limit() == cache.DEFAULT_LIMIT == 2**30
    (folder / "limit").write_text("damaged")
    assert cache.limit() == 2**30
    cache.set_limit(0)
    name = _stored(1)
    assert cache.load(name) is None
    told = CliRunner().invoke(main, ["cache", "limit", "1.5"])
    assert told.exit_code == 0, told.output
    _stored(2)
    assert CliRunner().invoke(main, ["cache", "limit"]).output == f"{3 * 2**19}\n"
    assert "1 programs, 0.0 MiB of at most 1.5." in CliRunner().invoke(main, ["cache"]).output


def test_several_processes_stay_within_the_limit(folder: Path) -> None:
    """Each stores and loads what the others store and remove; what is loaded is whole."""
    cache.set_limit(100_000)
    script = (
        "import random, sys; from portable.system import cache; random.seed(int(sys.argv[1]))\n"
        "for _ in range(300):\n"
        "    i = random.randrange(100); name = cache.key(str(i)); found = cache.load(name)\n"
        "    assert found in (None, bytes([i]) * 4000)\n"
        "    if found is None: cache.store(name, bytes([i]) * 4000)\n"
    )
    command = [sys.executable, "-c", script]
    running = [subprocess.Popen([*command, str(i)]) for i in range(3)]
    assert [process.wait() for process in running] == [0] * 3
    assert 50_000 < cache.usage().nbytes < 100_000 * (1 + 3 / 16) + 3 * 4200
