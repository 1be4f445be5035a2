"""What is generated for a kernel depends on no variable's name."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

import numpy as np
import pytest

import portable
from portable import conv, linalg, primitives, registry
from portable.lang.emit import generate
from portable.lang.frontend import source
from portable.lang.frontend.compile import translate
from portable.lang.kernel import Kernel

_NAME: Final = re.compile(r"(?<![\w.])[%@]?[A-Za-z_$][\w.$]*")


def _run(device: portable.Device) -> None:
    random = np.random.default_rng(5)

    def drawn(*shape: int, kind: str = "float32") -> Any:
        return random.standard_normal(shape).astype(kind)

    with portable.use(device):
        for kind in ("float16", "float32"):
            linalg.gemm(drawn(70, 96, kind=kind), drawn(96, 40, kind=kind))
        conv.conv2d(drawn(1, 8, 9, 9), drawn(8, 8, 3, 3), padding=1)
        primitives.scan(drawn(900))
        primitives.sort(drawn(300))
        primitives.reduce(drawn(7, 300), axis=1)
        linalg.svdvals(drawn(9, 9))


def _renamed(tree: ast.stmt, step: int) -> ast.stmt:
    """A function whose variables have other names, in the order of the alphabet or against it."""
    assert isinstance(tree, ast.FunctionDef)
    given = {x.arg for x in ast.walk(tree) if isinstance(x, ast.arg)}
    names = [x for x in ast.walk(tree) if isinstance(x, ast.Name)]
    made = sorted({x.id for x in names if isinstance(x.ctx, ast.Store)} - given)
    new = {name: f"v{at:03}_{tree.name}" for at, name in enumerate(made[::step])}
    for x in names:
        x.id = new.get(x.id, x.id)
    return tree


def _without_names(text: str) -> str:
    """The text with a number for each name, in the order of first use."""
    numbers: dict[str, str] = {}
    return _NAME.sub(lambda x: numbers.setdefault(x[0], f"#{len(numbers)}"), text)


@pytest.mark.parametrize("profile", ["h200", "native-cpu"])
def test_renamed_variables(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products, convolutions, reductions, scans, sorts and singular values; on two devices."""
    device = registry.device(f"simulator:{profile}")
    translated: dict[Any, Any] = {}
    plain, parsed = Kernel.translated, source._parsed

    def noted(kernel: Kernel, wanted: Any, capabilities: Any) -> Any:
        translated[kernel.python, wanted] = None
        return plain(kernel, wanted, capabilities)

    monkeypatch.setattr(Kernel, "translated", noted)
    _run(device)
    texts: list[list[str]] = []
    for turn in (1, -1):
        monkeypatch.setattr(source, "_parsed", lambda raw, t=turn: _renamed(parsed(raw), t))
        source.function_source.cache_clear()
        texts.append(
            [
                generate(translate(*call, device.capabilities), device.capabilities).source
                for call in translated
            ]
        )
    source.function_source.cache_clear()
    assert len(translated) > 7
    assert texts[0] != texts[1] or profile == "native-cpu"  # LLVM's values are numbered
    for (python, _), *both in zip(translated, *texts, strict=True):
        assert len(set(map(_without_names, both))) == 1, python.__name__
