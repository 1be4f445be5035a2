"""Operations ask what devices can do, never what they are or whose."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import portable

_ROOT = Path(portable.__file__).parent
_OPERATIONS = (
    "array",
    "conv",
    "forecast",
    "gf2",
    "linalg",
    "nn",
    "parallel",
    "primitives",
    "random",
)
_NAMES = {"architecture", "dialect", "driver", "vendor"}
_KINDS = {"accelerator", "cpu", "gpu", "simulator"}


def questions(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a module that ask who a device is, and what they ask for."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(attr=name) if name in _NAMES:
                yield node.lineno, name
            case ast.Attribute(value=ast.Attribute(attr="capabilities" | "target"), attr="kind"):
                yield node.lineno, "kind"
            case ast.Compare(left=ast.Attribute(attr="kind"), comparators=[ast.Constant(value=x)]):
                if x in _KINDS:
                    yield node.lineno, f"kind {x}"


def test_questions_are_found() -> None:
    asked = {
        'device.capabilities.kind == "abc"': "kind",
        'can.kind != "gpu"': "kind gpu",
        "kl.target.kind": "kind",
        "if can.vendor in ours: pass": "vendor",
    }
    for text, what in asked.items():
        assert what in [found for _, found in questions(text)], text
    assert not list(questions('x.dtype.kind == "f" and can.single_work_items'))


def test_operations_ask_for_capabilities() -> None:
    found = [
        f"{path.relative_to(_ROOT)}:{line}: {what}"
        for room in _OPERATIONS
        for path in sorted((_ROOT / room).rglob("*.py"))
        for line, what in questions(path.read_text(encoding="utf-8"))
    ]
    assert not found, "ask Capabilities for what matters here: " + ", ".join(found)
