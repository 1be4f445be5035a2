"""The command ``portable svd``."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from portable.cli import main


def _run(*arguments: Any) -> Any:
    return CliRunner().invoke(main, ["svd", *map(str, arguments), "--device", "simulator"])


def _saved(folder: Path, a: Any, name: str = "a.npy") -> Path:
    np.save(folder / name, a)
    return folder / name


def test_lists_the_singular_values_of_a_small_matrix(tmp_path: Path) -> None:
    done = _run(_saved(tmp_path, np.diag([1.0, 3.0, 2.0])))
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[0] == "Singular values of 3x3"
    assert [line.split()[1] for line in done.output.splitlines()[-3:]] == ["3", "2", "1"]


def test_summarises_a_larger_matrix(tmp_path: Path) -> None:
    a = np.diag(np.arange(25.0))
    done = _run(_saved(tmp_path, a))
    row = done.output.splitlines()[-1].split()
    assert row == ["1", "25", "24", "12", "0", "inf", "24"]


def test_summarises_batches(tmp_path: Path) -> None:
    done = _run(_saved(tmp_path, np.stack([np.eye(2)] * 23).astype(np.float32)))
    assert "and 3 more" in done.output
    assert "23x2x2" in done.output


def test_writes_what_numpy_reads(tmp_path: Path) -> None:
    a = np.random.default_rng(0).standard_normal((6, 4))
    out = tmp_path / "values.npy"
    done = _run(_saved(tmp_path, a), "--out", out)
    assert f"Written to {out}" in done.output
    np.testing.assert_allclose(np.load(out), np.linalg.svd(a, compute_uv=False), rtol=1e-12)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npy", "values.npy"]


def test_writes_vectors_too(tmp_path: Path) -> None:
    a = np.random.default_rng(0).standard_normal((6, 4))
    out = tmp_path / "vectors.npz"
    done = _run(_saved(tmp_path, a), "--vectors", out)
    assert f"Written to {out}" in done.output
    with np.load(out) as found:
        np.testing.assert_allclose((found["u"] * found["s"]) @ found["vh"], a, atol=1e-12)
    assert "names" in _run(_saved(tmp_path, a), "--vectors", tmp_path / "a.npy").output


@pytest.mark.parametrize(
    ("given", "options", "expected"),
    [
        (np.arange(6).reshape(2, 3), [], np.float64),
        (np.ones((2, 3), np.float16), [], np.float32),
        (np.ones((2, 3), ">f4"), [], np.float32),
        (np.ones((2, 3)), ["--dtype", "f32"], np.float32),
    ],
    ids=["integers", "half", "big-endian", "asked for"],
)
def test_types(tmp_path: Path, given: Any, options: list[str], expected: Any) -> None:
    out = tmp_path / "values.npy"
    done = _run(_saved(tmp_path, given), "--out", out, *options)
    assert done.exit_code == 0, done.output
    assert np.load(out).dtype == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", "3,0\n0,4\n"), ("a.txt", "# rows\n3 0\n0  4\n"), ("A.CSV", "3, 0\n0, 4")],
)
def test_text_is_read_as_such(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    done = _run(tmp_path / name)
    assert done.exit_code == 0, done.output
    assert [line.split()[1] for line in done.output.splitlines()[-2:]] == ["4", "3"]


@pytest.mark.parametrize("text", ["", "a,b\n", "1,2\n3\n", "\x00"])
def test_text_without_a_matrix_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    done = _run(tmp_path / "a.csv")
    assert done.exit_code == 1
    assert "a.csv" in done.output
    assert "pickle" not in done.output


def _header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    buffer = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue()


@pytest.mark.parametrize("shape", [(50_000, 50_000), (2**62, 2**62), (2, 3)], ids=str)
def test_a_file_shorter_than_it_says_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    (tmp_path / "a.npy").write_bytes(_header(shape) + bytes(40))
    done = _run(tmp_path / "a.npy")
    assert done.exit_code == 1
    assert "bytes of float64 and holds 40" in done.output


@pytest.mark.parametrize("link", ["", "symbolic", "hard"])
def test_what_is_read_is_not_written_over(tmp_path: Path, link: str) -> None:
    file = _saved(tmp_path, np.eye(2))
    out = tmp_path / "out.npy" if link else file
    if link == "symbolic":
        out.symlink_to(file)
    elif link:
        out.hardlink_to(file)
    done = _run(file, "--out", out)
    assert done.exit_code == 2
    assert "which is what is read" in done.output
    np.testing.assert_array_equal(np.load(file), np.eye(2))


def test_devices_and_pipes_are_written_through(tmp_path: Path) -> None:
    done = _run(_saved(tmp_path, np.eye(2)), "--out", "/dev/null")
    assert done.exit_code == 0, done.output
    assert Path("/dev/null").is_char_device()


def test_names_of_files_steer_no_terminal(tmp_path: Path) -> None:
    name = "\x1b[31m[x].npy"
    (tmp_path / name).write_bytes(b"no matrix")
    done = _run(tmp_path / name)
    assert done.exit_code == 1
    assert "\x1b" not in done.output
    assert "\\x1b[31m[x].npy" in done.output
    np.save(tmp_path / name, np.eye(2))
    done = _run(tmp_path / name, "--out", tmp_path / f"out{name}")
    assert done.exit_code == 0
    assert "\x1b" not in done.output


BAD = {
    "not a .npy file": (b"no matrix", "cannot be read as a .npy file"),
    "empty": (b"", "cannot be read as a .npy file"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_other_files_are_refused(tmp_path: Path, name: str) -> None:
    content, message = BAD[name]
    (tmp_path / "a.npy").write_bytes(content)
    done = _run(tmp_path / "a.npy")
    assert done.exit_code == 1
    assert message in done.output


def test_an_archive_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(2))
    assert "archive of several arrays (x)" in _run(tmp_path / "a.npz").output


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (np.ones(3), [], "expected a matrix"),
        (np.ones((2, 2), complex), [], "expected real numbers"),
        (np.ones((2, 2), complex), ["--dtype", "float32"], "expected real numbers"),
        (np.array([["a"]]), [], "expected real numbers"),
        (np.array([["a"]]), ["--dtype", "float32"], "expected real numbers"),
        (np.ones((2, 2), np.longdouble), [], "give --dtype float64"),
        (np.array([[np.nan]]), [], "NaN or infinities"),
        (np.array([[1e30]]), ["--dtype", "float16"], "beyond the range of float16"),
    ],
    ids=["vector", "complex", "complex as", "text", "text as", "long", "NaN", "overflow"],
)
def test_other_contents_are_refused(
    tmp_path: Path, content: Any, options: list[str], message: str
) -> None:
    done = _run(_saved(tmp_path, content), *options)
    assert done.exit_code == 1
    assert message in done.output


def test_a_missing_file_and_an_unknown_device(tmp_path: Path) -> None:
    assert "does not exist" in _run(tmp_path / "no.npy").output
    path = _saved(tmp_path, np.eye(2))
    done = CliRunner().invoke(main, ["svd", str(path), "--device", "abacus"])
    assert done.exit_code == 2
    assert "abacus" in done.output


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    done = _run(_saved(tmp_path, np.eye(2)), "--out", tmp_path / "no" / "values.npy")
    assert done.exit_code == 1
    assert "cannot be written" in done.output
