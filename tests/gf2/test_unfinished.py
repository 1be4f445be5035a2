"""What an elimination left unfinished: whose it is, and whether it may be gone on from."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from portable import gf2
from portable.errors import DataError
from portable.gf2.elimination import Elimination
from portable.gf2.made_up import random_problem
from portable.gf2.tuning import Shape
from portable.parallel import group

pytestmark = pytest.mark.needs_processor

_MEMORY = 2 * 8 * 2 * 500 * 2
"""Two stripes of two words of the 500 eliminators and rows: four batches."""


@pytest.fixture(autouse=True)
def _narrow_stripes(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Shape(4, 2, 2, (1, 1), 64, 64)
    monkeypatch.setattr("portable.gf2.shared_out.shape_for", lambda capabilities: shape)


def _written(folder: Path, ending: str = "txt") -> tuple[Path, Path]:
    paths = folder / f"eliminators.{ending}", folder / f"rows.{ending}"
    for path, matrix in zip(paths, random_problem(900, 300, 200, device="cpu"), strict=True):
        gf2.write_matrix(path, matrix)
    return paths


def _expected(known: Path, rows: Path) -> bytes:
    out = known.with_name("expected.gf2")
    gf2.eliminate_file(known, rows, out, columns=900, device="cpu")
    return out.read_bytes()


def _eliminate(known: Path, rows: Path, out: Path) -> bytes:
    gf2.eliminate_file(known, rows, out, columns=900, device="cpu", memory=_MEMORY)
    return out.read_bytes()


def _ended(known: Path, rows: Path, out: Path, stripes: int = 5) -> Path:
    """The folder of an elimination that was ended after so many stripes."""
    chosen: list[int] = []
    choose = Elimination.choose

    def counted(work: Elimination, stripe: int) -> None:
        if len(chosen) == stripes:
            raise KeyboardInterrupt
        chosen.append(stripe)
        choose(work, stripe)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Elimination, "choose", counted)
        with pytest.raises(KeyboardInterrupt):
            _eliminate(known, rows, out)
    return out.with_name(f"{out.name}.unfinished")


def test_an_input_that_was_replaced_by_an_older_one(tmp_path: Path) -> None:
    known, rows = _written(tmp_path)
    _ended(known, rows, tmp_path / "out.gf2")
    lines = rows.read_text().splitlines(keepends=True)
    rows.write_text("".join(reversed(lines)))  # as many bytes, rows and columns
    os.utime(rows, (1e9, 1e9))
    expected = _expected(known, rows)
    assert _eliminate(known, rows, tmp_path / "out.gf2") == expected


def test_one_elimination_at_a_time_into_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, rows = _written(tmp_path)
    expected = _expected(known, rows)
    out = tmp_path / "out.gf2"
    at_work, may_go_on = threading.Event(), threading.Event()
    choose = Elimination.choose

    def held(work: Elimination, stripe: int) -> None:
        at_work.set()
        assert may_go_on.wait(60)
        choose(work, stripe)

    monkeypatch.setattr(Elimination, "choose", held)
    first = threading.Thread(target=_eliminate, args=(known, rows, out))
    first.start()
    try:
        assert at_work.wait(60)
        with pytest.raises(BlockingIOError, match=r"another elimination into this file is at work"):
            _eliminate(known, rows, out)
    finally:
        may_go_on.set()
        first.join()
    assert out.read_bytes() == expected
    assert not (tmp_path / "out.gf2.unfinished").exists()


@pytest.mark.parametrize("name", ["pivots-000001", "result.gf2", "finished.json"])
@pytest.mark.parametrize("how", ["bit", "short", "empty"])
def test_damage_is_found(tmp_path: Path, name: str, how: str) -> None:
    known, rows = _written(tmp_path)
    out = tmp_path / "out.gf2"
    folder = _ended(known, rows, out)
    data = bytearray((folder / name).read_bytes())
    if how == "bit":
        data[-1 if name == "finished.json" else -20] ^= 8
    (folder / name).write_bytes({"bit": data, "short": data[: len(data) // 2], "empty": b""}[how])
    with pytest.raises(DataError, match=rf"out\.gf2\.unfinished.*{name}.*is damaged. Remove"):
        _eliminate(known, rows, out)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert _eliminate(known, rows, out) == _expected(known, rows)


@pytest.mark.parametrize("name", ["e.gf2", "copies.json"])
def test_damaged_copies_are_made_anew(tmp_path: Path, name: str) -> None:
    known, rows = _written(tmp_path)
    out = tmp_path / "out.gf2"
    folder = _ended(known, rows, out)
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)
    assert _eliminate(known, rows, out) == _expected(known, rows)


def test_pivots_that_are_missing(tmp_path: Path) -> None:
    known, rows = _written(tmp_path)
    folder = _ended(known, rows, tmp_path / "out.gf2")
    (folder / "pivots-000002").unlink()
    with pytest.raises(DataError, match=r"out\.gf2\.unfinished"):
        _eliminate(known, rows, tmp_path / "out.gf2")


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    known, rows = _written(tmp_path)
    folder = tmp_path / "out.gf2.unfinished"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    assert _eliminate(known, rows, tmp_path / "out.gf2") == _expected(known, rows)
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "notes.txt"]


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
@pytest.mark.parametrize("way", ["whole", "batches", "processes"])
def test_links_as_out_are_followed(tmp_path: Path, way: str) -> None:
    known, rows = _written(tmp_path)
    (tmp_path / "far").mkdir()
    target, out = tmp_path / "far" / "out.gf2", tmp_path / "link.gf2"
    target.touch(0o640)
    target.chmod(0o640)
    out.symlink_to(target)
    device: dict[str, object] = {"device": "cpu"}
    if way == "processes":
        device = {"group": group(["cpu"] * 2)}
    if way == "batches":
        device["memory"] = _MEMORY
    gf2.eliminate_file(known, rows, out, columns=900, **device)  # type: ignore[arg-type]
    assert out.is_symlink()
    assert target.read_bytes() == _expected(known, rows)
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in target.parent.iterdir()] == ["out.gf2"]


def test_bits_beyond_the_columns_are_refused(tmp_path: Path) -> None:
    words = np.zeros((5, 2), np.uint64)
    words[3, 1] = np.uint64(1) << np.uint64(36)  # column 100 of 100
    gf2.BitMatrix.from_words(words, 100, device="cpu").save(tmp_path / "a.gf2")
    gf2.BitMatrix.zeros((3, 100), device="cpu").save(tmp_path / "b.gf2")
    with pytest.raises(DataError, match=r"a\.gf2, row 3: bits are set beyond .* 100 columns"):
        gf2.BitMatrix.load(tmp_path / "a.gf2")
    with pytest.raises(DataError, match="row 3"):
        gf2.read_matrix(tmp_path / "a.gf2")
    for memory in (None, 1):
        with pytest.raises(DataError, match="row 3"):
            gf2.eliminate_file(
                tmp_path / "b.gf2", tmp_path / "a.gf2", tmp_path / "out.gf2", memory=memory
            )


def test_headers_that_no_matrix_has(tmp_path: Path) -> None:
    gf2.BitMatrix.zeros((3, 0), device="cpu").save(tmp_path / "a.gf2")
    data = bytearray((tmp_path / "a.gf2").read_bytes())
    data[46] = 255  # of the rows, which take no bytes here
    (tmp_path / "a.gf2").write_bytes(data)
    with pytest.raises(DataError, match=r"header of .*a\.gf2"):
        gf2.BitMatrix.load(tmp_path / "a.gf2")
