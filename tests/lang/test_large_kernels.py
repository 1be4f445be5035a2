"""Kernels of very many terms and parameters run, or are refused with their line."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable.errors import KernelError

_HEAD = "import portable as pt\nfrom portable import lang as kl\n\n\n@pt.kernel\n"


def _kernel(folder: Path, text: str) -> Any:
    path = folder / "made.py"
    path.write_text(_HEAD + text)
    space: dict[str, Any] = {"__name__": "made"}
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10 * limit)  # Python's own, to read what is too deep for us
    try:
        exec(compile(path.read_text(), str(path), "exec"), space)
    finally:
        sys.setrecursionlimit(limit)
    linecache.checkcache(str(path))
    return space["k"]


@pytest.mark.parametrize("where", ["simulator", "cpu"])
def test_sums_of_very_many_terms(tmp_path: Path, where: str) -> None:
    terms = " + ".join(["x[i]"] * 900)
    kernel = _kernel(tmp_path, f"def k(x):\n    i = kl.global_id(0)\n    x[i] = {terms}\n")
    with pt.use(where), pytest.raises(KernelError, match=r"made\.py:8:.*nested too deeply"):
        kernel[4, 4](np.ones(4, np.float32))


@pytest.mark.parametrize("where", ["simulator", "cpu"])
def test_a_thousand_parameters(tmp_path: Path, where: str) -> None:
    names = [f"a{i}" for i in range(1000)]
    added = "".join(f"    x[i] += {name}\n" for name in names)
    kernel = _kernel(tmp_path, f"def k(x, {', '.join(names)}):\n    i = kl.global_id(0)\n{added}")
    x = np.zeros(4, np.float32)
    with pt.use(where):
        kernel[4, 4](x, *[1.0] * 1000)
    assert x.tolist() == [1000] * 4
