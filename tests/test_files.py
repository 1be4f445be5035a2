"""How files are written: whole or as they were, and no others."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from portable.system import files
from portable.system.files import write_whole

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX has such files and permissions")


def _names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    target = tmp_path / "a"
    for content in (b"one", b""):
        write_whole(target, content)
        assert target.read_bytes() == content
    assert _names(tmp_path) == ["a"]


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_permissions_are_kept(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "a"
    target.touch()
    target.chmod(mode)
    write_whole(target, b"new")
    assert stat.S_IMODE(target.stat().st_mode) == mode


@posix
def test_a_new_file_has_the_permissions_that_are_usual(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


@posix
@pytest.mark.parametrize("there", [True, False])
def test_links_are_followed(tmp_path: Path, there: bool) -> None:
    (tmp_path / "far").mkdir()
    if there:
        (tmp_path / "far" / "a").touch(0o600)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "a")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "a").read_bytes() == b"new"
    assert _names(tmp_path / "far") == ["a"]


@posix
def test_devices_are_written_to_and_stay(tmp_path: Path) -> None:
    write_whole(os.devnull, b"gone")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    (tmp_path / "null").symlink_to(os.devnull)
    write_whole(tmp_path / "null", b"gone")
    assert stat.S_ISCHR((tmp_path / "null").stat().st_mode)


@posix
def test_pipes_are_written_to_and_stay(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_whole(pipe, b"through")
    reader.join()
    assert read == [b"through"]
    assert pipe.is_fifo()
    assert _names(tmp_path) == ["pipe"]


def test_windows_is_told_not_to_change_what_a_device_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modes, opened = [], os.open
    monkeypatch.setattr(files, "_BINARY", os.O_APPEND)  # in the place of Windows' flag
    monkeypatch.setattr(os, "open", lambda path, mode: modes.append(mode) or opened(path, mode))
    write_whole(os.devnull, b"gone")
    assert [mode & os.O_APPEND for mode in modes] == [os.O_APPEND]


@posix
def test_the_standard_output_is_written_to(tmp_path: Path) -> None:
    program = "from portable.system.files import write_whole; write_whole('/dev/stdout', b'data')"
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert (tmp_path / "out").read_bytes() == b"data"


@pytest.mark.parametrize("name", ["no/a", "folder", "loop"])
def test_errors_name_the_file_asked_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match=name) as caught:
        write_whole(tmp_path / name, b"data")
    assert caught.value.filename == os.fspath(tmp_path / name)
    assert _names(tmp_path) == ["folder", "loop"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_device_is_an_error() -> None:
    with pytest.raises(OSError, match="/dev/full"):
        write_whole("/dev/full", b"data")


@posix
@pytest.mark.parametrize("handler", ["SIG_IGN", "SIG_DFL"], ids=["full disk", "killed"])
def test_a_full_disk_or_a_killed_process_leaves_the_old_file(tmp_path: Path, handler: str) -> None:
    """No more than 4096 bytes can be written; the process is told so, or killed in the middle."""
    target = tmp_path / "a"
    target.write_bytes(b"old")
    program = f"""if True:
        import resource, signal
        from portable.system.files import write_whole
        signal.signal(signal.SIGXFSZ, signal.{handler})
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        write_whole({str(target)!r}, bytes(100_000))
    """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert target.read_bytes() == b"old"
    left = [name for name in _names(tmp_path) if name != "a"]
    if handler == "SIG_IGN":
        assert "File too large" in done.stderr
        assert not left
        return
    (unfinished,) = left
    write_whole(target, b"new")
    assert _names(tmp_path) == [unfinished, "a"]
    os.utime(tmp_path / unfinished, (0, 0))
    write_whole(target, b"newer")
    assert _names(tmp_path) == ["a"]


def test_files_of_others_that_look_alike_are_left(tmp_path: Path) -> None:
    names = [".a.unfinished", "a." + "0" * 32 + ".unfinished", ".a." + "0" * 31 + ".unfinished"]
    for name in names:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    write_whole(tmp_path / "a", b"new")
    assert _names(tmp_path) == sorted([*names, "a"])
