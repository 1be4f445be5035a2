"""Kernels as methods of structs, and where their source is from."""

from __future__ import annotations

import linecache
import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.errors import LaunchError
from tests.support.patience import PATIENCE


class Points(NamedTuple):
    x: Any
    step: float

    @pt.function
    def moved(self, i, by):
        return self.x[i] + self.step * by

    @pt.kernel
    def shift(self, by):
        i = kl.global_id(0)
        if i < self.x.shape[0]:
            self.x[i] = self.moved(i, by)


@dataclass(frozen=True)
class Scaled:
    x: Any

    @pt.kernel
    def scale(self, factor, *, TIMES=1):
        i = kl.global_id(0)
        if i < self.x.shape[0]:
            for _ in range(TIMES):
                self.x[i] *= factor


@pt.kernel
def plain(x):
    x[0] = 1


class Keeps:
    kernel = plain


def test_kernels_are_methods_of_structs(device: Device) -> None:
    x = pt.asarray(np.arange(10, dtype=np.float32), device=device)
    points, scaled = Points(x, 2.0), Scaled(x)
    with pt.use(device):
        points.shift[10, 8](3.0)
        scaled.scale[10](2.0, TIMES=2)
        again = scaled.scale[10].prepare(1.0)
        again()
        Points.shift[10, 8](points, -6.0)  # as a function of the class
        np.testing.assert_array_equal(pt.to_numpy(x), 4 * (np.arange(10) + 6) - 12)


def test_misuse_of_methods_is_told() -> None:
    scaled = Scaled(np.zeros(3, np.float32))
    with pt.use("simulator"):
        with pytest.raises(LaunchError, match="give its ndrange"):
            scaled.scale(2.0)
        with pytest.raises(LaunchError, match="takes 2 arguments"):
            scaled.scale[3]()
    assert "scale" in repr(scaled.scale)


def test_kernels_that_classes_merely_keep_are_no_methods() -> None:
    x = np.zeros(1, np.float32)
    with pt.use("simulator"):
        Keeps().kernel[1, 1](x)
    assert x[0] == 1


def test_methods_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(Points.shift)) is Points.shift


SESSION = """\
import portable as pt
@pt.kernel
def one(x):
    x[0] = 1

"""


def test_a_prompt_that_keeps_no_source_says_so() -> None:
    """Python's until 3.12; later ones, IPython and notebooks keep theirs in `linecache`."""
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=SESSION,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert "cannot become a kernel" in done.stderr or "KernelError" not in done.stderr
    if sys.version_info < (3, 13):
        assert "by exec or at the prompt" in done.stderr


def test_a_prompt_that_keeps_its_source_is_as_good_as_a_file() -> None:
    name = "<input 7>"
    linecache.cache[name] = (len(SESSION), None, SESSION.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(SESSION, name, "exec"), names)
    x = np.zeros(1, np.float32)
    with pt.use("simulator"):
        names["one"][1, 1](x)
    assert x[0] == 1
