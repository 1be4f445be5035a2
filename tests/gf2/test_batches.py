"""Batches of columns give the same bits, and go on from the last finished one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from portable import gf2
from portable.errors import DataError
from portable.gf2.batches import eliminate_in_batches
from portable.gf2.elimination import Elimination
from portable.gf2.made_up import random_problem
from portable.gf2.text import Files
from portable.gf2.tuning import Shape
from portable.parallel import group

pytestmark = pytest.mark.needs_processor

_MEMORY = 2 * 8 * 2 * 500 * 2
"""Two stripes of two words of the 500 eliminators and rows."""


@pytest.fixture(autouse=True)
def _narrow_stripes(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Shape(4, 2, 2, (1, 1), 64, 64)
    monkeypatch.setattr("portable.gf2.shared_out.shape_for", lambda capabilities: shape)


def _files(folder: Path, ending: str) -> tuple[Path, Path, Path]:
    paths = tuple(folder / f"{name}.{ending}" for name in ("eliminators", "rows", "expected"))
    for path, matrix in zip(paths, random_problem(900, 300, 200, device="cpu"), strict=False):
        gf2.write_matrix(path, matrix)
    gf2.eliminate_file(*paths, device="cpu")
    return paths[0], paths[1], paths[2]


@pytest.mark.parametrize("ending", ["txt", "gf2"])
@pytest.mark.parametrize("size", [1, 3])
def test_batches_of_columns(tmp_path: Path, ending: str, size: int) -> None:
    known, rows, expected = _files(tmp_path, ending)
    out = tmp_path / f"out.{ending}"
    gf2.eliminate_file(known, rows, out, group=group(["cpu"] * size), memory=_MEMORY)
    assert out.read_bytes() == expected.read_bytes()
    assert len(list(tmp_path.iterdir())) == 4


def test_text_that_a_device_has_no_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, rows, expected = _files(tmp_path, "txt")
    rooms: list[int] = []

    def noted(files: Files, memory: int, *others: Any) -> Any:
        rooms.append(memory)
        return eliminate_in_batches(files, memory, *others)

    monkeypatch.setattr("portable.gf2.files.eliminate_in_batches", noted)
    monkeypatch.setattr("portable.gf2.files._SHARE", 1e-9)
    gf2.eliminate_file(known, rows, tmp_path / "out.txt", device="cpu")
    assert (tmp_path / "out.txt").read_bytes() == expected.read_bytes()
    assert len(rooms) == 1


def test_copies_of_other_columns_are_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, rows, expected = _files(tmp_path, "txt")
    out = tmp_path / "out.gf2"

    def ended(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Elimination, "follow", ended)
        with pytest.raises(KeyboardInterrupt):
            gf2.eliminate_file(known, rows, out, device="cpu", memory=_MEMORY)
    gf2.eliminate_file(known, rows, out, columns=1000, device="cpu", memory=_MEMORY)
    assert gf2.BitMatrix.load(out) == gf2.read_matrix(expected, columns=1000)


def test_going_on_after_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, rows, expected = _files(tmp_path, "gf2")
    out = tmp_path / "out.gf2"
    chosen: list[int] = []
    choose = Elimination.choose

    def counted(work: Elimination, stripe: int) -> None:
        if len(chosen) == 5:
            raise KeyboardInterrupt
        chosen.append(stripe)
        choose(work, stripe)

    monkeypatch.setattr(Elimination, "choose", counted)
    with pytest.raises(KeyboardInterrupt):
        gf2.eliminate_file(known, rows, out, device="cpu", memory=_MEMORY)
    assert not out.exists()
    assert chosen == [0, 1, 2, 3, 4]
    chosen.clear()
    chosen += [-1] * 6
    promoted = gf2.eliminate_file(known, rows, out, device="cpu", memory=_MEMORY)
    assert chosen[6:] == [4, 5, 6, 7]
    assert out.read_bytes() == expected.read_bytes()
    assert promoted.tolist() == [bool(row) for row in gf2.BitMatrix.load(out).to_columns()]
    assert not (tmp_path / "out.gf2.unfinished").exists()


def test_what_is_refused_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, rows, _ = _files(tmp_path, "txt")
    known.write_text("899 3\n899 1\n")
    with pytest.raises(DataError, match="line 2: its leading column is 899"):
        gf2.eliminate_file(known, rows, tmp_path / "out.txt", device="cpu", memory=_MEMORY)
    known.write_text("899 3\n")
    monkeypatch.setattr("portable.system.files.shutil.disk_usage", lambda path: _Full())
    with pytest.raises(OSError, match="not enough disk"):
        gf2.eliminate_file(known, rows, tmp_path / "out.txt", device="cpu", memory=_MEMORY)
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".txt"] * 3


class _Full:
    free = 1
