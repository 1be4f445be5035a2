"""Elimination from files to files, and the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from portable import gf2
from portable.backend import Device
from portable.cli import main
from portable.errors import DataError
from portable.gf2.text import read_text, text_shape, write_text
from tests.gf2.reference import columns_of, eliminated, random_problem


def _text(rows: list[int]) -> str:
    return "".join("".join(f"{c} " for c in columns_of(r)[::-1]) + "\n" for r in rows)


def _written(folder: Path, seed: int = 1) -> tuple[Path, Path, str]:
    problem = random_problem(seed, 90, 40, 0.2)
    known, rows = folder / "eliminators.txt", folder / "rows.txt"
    known.write_text(_text(problem.eliminators))
    rows.write_text(_text(problem.rows))
    return known, rows, _text(eliminated(problem))


def _run(*arguments: Any) -> Any:
    return CliRunner().invoke(main, ["gf2", *map(str, arguments)])


def test_from_file_to_file(device: Device, tmp_path: Path) -> None:
    known, rows, expected = _written(tmp_path)
    gf2.eliminate_file(known, rows, tmp_path / "out.txt", device=device)
    assert (tmp_path / "out.txt").read_text() == expected
    assert sorted(p.name for p in tmp_path.iterdir()) == ["eliminators.txt", "out.txt", "rows.txt"]


def test_the_command(tmp_path: Path) -> None:
    known, rows, expected = _written(tmp_path)
    done = _run("eliminate", known, rows, "--out", tmp_path / "out.txt")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out.txt").read_text() == expected
    assert "40 rows: " in done.output
    packed = _run("eliminate", known, rows, "--out", tmp_path / "out.gf2", "--columns", 99)
    assert packed.exit_code == 0, packed.output
    reduced = gf2.BitMatrix.load(tmp_path / "out.gf2")
    assert reduced == gf2.read_matrix(tmp_path / "out.txt", columns=99)
    ranked = _run("rank", tmp_path / "out.gf2")
    assert ranked.output.split()[-1] == str(sum(map(bool, expected.split("\n"))))


def test_made_up_problems(tmp_path: Path) -> None:
    for packed in ((), ("--packed",)):
        done = _run("random", "--shape", "200x120x50", "--out", tmp_path, "--seed", 3, *packed)
        assert done.exit_code == 0, done.output
    known = gf2.read_matrix(tmp_path / "eliminators.gf2")
    assert known.shape == (120, 200)
    assert gf2.read_matrix(tmp_path / "eliminators.txt", columns=200) == known
    assert gf2.read_matrix(tmp_path / "rows.gf2").shape == (50, 200)
    assert _run("random", "--shape", "200x120").exit_code == 2
    refused = _run("random", "--shape", "10x20x3", "--out", tmp_path)
    assert "20 eliminators of 10 columns" in refused.output


def test_text_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dense = np.random.default_rng(1).random((60, 300)) < 0.3
    dense[7] = dense[59] = False
    words = gf2.BitMatrix.from_dense(dense).to_words()
    monkeypatch.setattr("portable.gf2.text._PIECE", 1000)
    told: list[float] = []
    write_text(tmp_path / "a.txt", words, 300)
    found, columns = read_text(tmp_path / "a.txt", columns=300, progress=told.append)
    np.testing.assert_array_equal(found, words)
    assert columns == 300
    assert len(told) > 5
    assert told[-1] == 1


def test_the_shape_of_text(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text(" \t7 3 \n\n 12\n5\n \n")
    assert text_shape(text) == (5, 13)
    text.write_text("")
    assert text_shape(text) == (0, 0)
    text.write_text("1\n1234567890\n")
    with pytest.raises(DataError, match="line 2: column 1234567890 is out of range"):
        text_shape(text)


_WRONG = [
    (b"3 2 1\n4 5\n", "line 2: column 5 follows column 4; columns have to descend"),
    (b"3 2 1\n4 4\n", "line 2: column 4 follows column 4"),
    (b"\n7 x2\n", "line 2: 'x2' is no column"),
    (b"3 -2\n", "line 1: '-2' is no column"),
    (b"3\n2 1", "line 2: the last line has no end; the file was cut short"),
    (b"12345678901\n", "line 1: column 12345678901 is out of range"),
]


@pytest.mark.parametrize(("text", "message"), _WRONG)
def test_what_text_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    known, rows, _ = _written(tmp_path)
    rows.write_bytes(text)
    with pytest.raises(DataError) as caught:
        gf2.eliminate_file(known, rows, tmp_path / "out.txt")
    assert f"{rows}, {message}" in str(caught.value)
    assert not (tmp_path / "out.txt").exists()


def test_what_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, rows, _ = _written(tmp_path)
    known.write_text("5 1\n4 2\n5 3\n")
    done = _run("eliminate", known, rows, "--out", tmp_path / "out.txt")
    assert done.exit_code == 1
    assert f"{known}, line 3: its leading column is 5, and so is that of {known}, line 1" in (
        done.output.replace("\n", " ")
    )
    known.write_text("5 1\n\n")
    assert f"{known}, line 2 is empty" in _run("eliminate", known, rows, "--out", "x").output
    rows.write_text("9\n")
    with pytest.raises(DataError, match="line 1: column 9; there are columns 0 to 4"):
        read_text(rows, columns=5)
    nowhere = _run("eliminate", known, rows, "--out", tmp_path / "none" / "out.txt")
    assert f"{tmp_path / 'none'}: there is no such folder" in nowhere.output.replace("\n", "")
    narrow = _run("eliminate", known, rows, "--out", "x", "--columns", 7)
    assert f"{rows}, line 1: column 9; there are columns 0 to 6" in narrow.output
    monkeypatch.setattr("portable.system.files.shutil.disk_usage", lambda path: _Usage())
    known.write_text("5 1\n")
    monkeypatch.setattr("portable.gf2.files.eliminate", None)  # which is not come to
    full = _run("eliminate", known, rows, "--out", tmp_path / "out.gf2")
    assert "not enough disk" in full.output
    assert not (tmp_path / "out.gf2").exists()


class _Usage:
    free = 1
