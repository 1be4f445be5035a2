"""What type checkers make of signatures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import numpy as np
from portable import linalg, primitives, random
from portable.conv import conv2d
from portable.linalg import band_to_bidiagonal, gemm, svdvals
from portable.nn import MLP

a = np.ones((4, 4), np.float32)
x: np.ndarray = gemm(a, a.T, bias=a[0])
x = svdvals(a)
x, y = band_to_bidiagonal(a)
x = conv2d(a, a)
x = MLP([1, 2])(a)
gemm(1, 2)
gemm(a, a, activation="gelu")
linalg.svdd(a)
primitives.tpok(a, 3)
random.Generator().randn(3)
"""


def test_arrays_of_a_library_give_arrays_of_it(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    file = tmp_path / "code.py"
    file.write_text(CODE)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", str(file)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    lines = [line.split(":")[1] for line in done.stdout.splitlines() if "code.py:" in line]
    assert lines == ["14", "15", "16", "17", "18"], done.stdout
