from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from portable import cache, registry
from tests.support.axpy import axpy, bind, groups


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PORTABLE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("PORTABLE_CACHE", raising=False)
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


def test_an_unwritable_folder_is_tolerated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = folder / "file"
    blocker.write_text("not a folder")
    monkeypatch.setenv("PORTABLE_CACHE_DIR", str(blocker / "below"))
    cache.store(cache.key("source"), b"binary")
    assert cache.load(cache.key("source")) is None


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


def _run_on_cpu() -> None:
    device = registry.device("cpu")
    x, y = np.zeros(10, np.float32), np.ones(10, np.float32)
    device.compile(axpy(device)).launch(groups(10), bind(device, x, y, 3.0, 10))
    np.testing.assert_array_equal(x, np.float32(3))
