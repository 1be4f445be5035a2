"""Peers at their best: what holds them back is taken away, or said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import which
from types import SimpleNamespace
from typing import Any

import pytest

from portable.dtypes import float32
from portable.system.isolation import usable_cores
from portable_bench import environment
from portable_bench.environment import Library, held_back, libraries
from portable_bench.harness import Pace
from portable_bench.operation import Case
from portable_bench.page import page
from portable_bench.results import Results, load, write
from portable_bench.tables import peer_tables, remarks
from portable_bench.torch_peers import torch_at_its_best
from portable_bench.worker import Worker, cores_given, holding, unheld
from tests.bench.deadly import find, held, scripted
from tests.bench.fakes import ENVIRONMENT, FakeDevice

OLD = Library("OpenBLAS", "0.3", "numpy", "Haswell", 1)
NEW = Library("OpenBLAS", "0.3", "numpy", "SkylakeX", 2)


@pytest.mark.parametrize(
    ("name", "value", "holds"),
    [
        ("OPENBLAS_CORETYPE", "Haswell", True),
        ("OPENBLAS_L2_SIZE", "1", True),
        ("MKL_ENABLE_INSTRUCTIONS", "SSE4_2", True),
        ("MKL_NUM_THREADS", "8", True),
        ("MKL_THREADING_LAYER", "GNU", False),
        ("MKL_THREADING_LAYER", "sequential", True),
        ("NVIDIA_TF32_OVERRIDE", "1", True),
        ("OMP_NUM_THREADS", "3", True),
        ("OMP_NUM_THREADS", "4", False),
        ("OMP_NUM_THREADS", "4,2", False),
        ("OPENBLAS_NUM_THREADS", "many", True),
        ("OMP_WAIT_POLICY", "passive", False),
        ("PATH", "/bin", False),
    ],
)
def test_what_holds_a_library_back_beside_four_cores(name: str, value: str, holds: bool) -> None:
    assert bool(holding({name: value}, 4)) is holds


def test_variables_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    with unheld(2) as taken:
        assert taken["OPENBLAS_CORETYPE"] == "Haswell"
        assert "OPENBLAS_CORETYPE" not in os.environ
    assert os.environ["OPENBLAS_CORETYPE"] == "Haswell"


def test_libraries_are_given_as_many_cores_as_ours() -> None:
    assert cores_given([FakeDevice("gpu", "gpu")]) == usable_cores()
    own = FakeDevice()
    assert cores_given([own, FakeDevice("gpu", "gpu")]) == own.capabilities.compute_units


def test_what_measures_is_started_without_what_holds_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("MKL_NUM_THREADS", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    pace = Pace(cell=0, least_rounds=1, rest=0)
    with Worker(pace, find=find, cores=2) as worker:
        cell = worker.measure(scripted("held", held), Case(FakeDevice(), float32, (4,)))
        assert cell.ours[0].failure == ""
        assert set(worker.taken_away) >= {"OPENBLAS_CORETYPE", "MKL_NUM_THREADS"}
        (own,) = [x for x in worker.libraries if x["part_of"] == "numpy"]
    assert own["name"]
    assert own["threads"] >= 1


# -- what is said ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("library", "flags", "said"),
    [
        (
            OLD,
            "avx2 avx512dq",
            ["OpenBLAS of numpy works with 1 of the 2", "not for AVX-512"],
        ),
        (OLD, "avx2", ["works with 1 of the 2 cores"]),
        (NEW, "avx2 avx512dq", []),
        (Library("OpenBLAS", "0.3", "scipy", "Prescott", 2), "avx2", ["not for AVX2"]),
        (Library("OpenBLAS", "0.3", "numpy", "ARMV8", 2), "asimd", []),
        (Library("PyTorch", "2.9", "", "DEFAULT", 1), "avx2", ["PyTorch works with 1"]),
        (Library("dpnp", "0.20"), "avx2", []),
    ],
)
def test_what_holds_back_all_the_same_is_said(
    library: Library, flags: str, said: list[str]
) -> None:
    notes = held_back([library], 2, frozenset(flags.split()))
    assert len(notes) == len(said)
    assert all(part in note for part, note in zip(said, notes, strict=True))


def test_results_hold_and_show_what_libraries_ran_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "processor_flags", lambda: frozenset({"avx512dq"}))
    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    entry = {"name": "OpenBLAS", "version": "0.3", "part_of": "numpy", "kernels": "Haswell"}
    entry |= {"threads": 2, "settings": {"threads by": "[/x]"}}  # type: ignore[dict-item]
    found = environment.peers({"OPENBLAS_L2_SIZE": "9"}, [entry], 2)
    results = Results(ENVIRONMENT | {"peers": found}, [])
    write(tmp_path / "found.json", results)
    assert load(tmp_path / "found.json") == results
    (table,) = peer_tables(results.environment)
    assert table.row_count == 1
    said = "\n".join(remarks(results.environment))
    assert "started without OPENBLAS_L2_SIZE=9" in said
    assert "Held back: OpenBLAS of numpy runs kernels for Haswell, not for AVX-512." in said
    assert "threadpoolctl is not installed" in said
    assert "OPENBLAS_L2_SIZE" in page(results)
    assert peer_tables(ENVIRONMENT) == []


def fake_torch(**others: Any) -> Any:
    settings: dict[str, Any] = {"threads": 1, "precision": "medium"}
    return SimpleNamespace(
        __version__="2.9",
        settings=settings,
        get_num_threads=lambda: settings["threads"],
        set_num_threads=lambda n: settings.update(threads=n),
        get_float32_matmul_precision=lambda: settings["precision"],
        set_float32_matmul_precision=lambda text: settings.update(precision=text),
        cuda=SimpleNamespace(is_available=lambda: True),
        backends=SimpleNamespace(
            cpu=SimpleNamespace(get_cpu_capability=lambda: "AVX512"),
            cudnn=SimpleNamespace(version=lambda: 91000, benchmark=False, allow_tf32=True),
        ),
    )


def test_pytorch_is_set_to_its_best_and_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = fake_torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    torch_at_its_best.cache_clear()
    assert torch_at_its_best() is torch
    torch_at_its_best.cache_clear()
    (found,) = [x for x in libraries() if x["name"] == "PyTorch"]
    assert found["threads"] == len(os.sched_getaffinity(0))
    assert found["kernels"] == "AVX512"
    assert found["settings"] == {
        "single precision": "highest (TF32 unless highest)",
        "cuDNN": "91000",
        "cuDNN's benchmark mode": "on",
        "TF32 in convolutions": "off",
    }


def test_a_library_that_describes_itself_otherwise_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(__version__="14", _core=None))
    names = [x["name"] for x in libraries()]
    assert "PyTorch" not in names
    assert "CuPy" in names


def test_an_archive_names_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is no git, as in a wheel built of it."""
    monkeypatch.setattr(environment, "_ARCHIVED", "0123456789abcdef0123")
    assert environment._commit() == "0123456789ab"


@pytest.mark.skipif(which("git") is None, reason="git is not installed")
@pytest.mark.skipif(not environment._ARCHIVED.startswith("$"), reason="this is an archive itself")
def test_git_puts_the_commit_into_archives(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    for name in (".gitattributes", "bench/environment.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((root / name).read_bytes())

    def git(*words: str) -> str:
        names = "-c", "user.name=a", "-c", "user.email=a@b"
        command = ["git", "-C", str(tmp_path), *names, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "All")
    assert f'"{git("rev-parse", "HEAD").strip()}"' in git("archive", "HEAD")
