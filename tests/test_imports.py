"""Imports point down, and never round in a circle, those for type checkers included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import portable

_ROOT: Final = Path(portable.__file__).parent

_FLOORS: Final = (
    ("forecast",),
    ("nn",),
    ("conv", "gf2", "numerics", "random"),
    ("array",),
    ("linalg",),
    ("parallel",),
    ("primitives",),
    ("sim",),
    ("tune",),
    ("lang",),
)
"""The packages from the top down; modules beside them belong to none."""

_OPEN: Final = {"portable.array"}
"""Packages that have circles for type checkers: an array's methods are the functions that take
arrays, and name the class."""


def imported(tree: ast.AST, modules: Mapping[str, object]) -> Iterator[str]:
    """The modules that a text imports when it is loaded or checked, not when a function runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imported(node, modules)


@cache
def graph() -> dict[str, set[str]]:
    """What each module of the package imports of it."""
    trees = {}
    for path in sorted(_ROOT.rglob("*.py")):
        parts = ("portable", *path.relative_to(_ROOT).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text(encoding="utf-8"))
    return {
        name: {x for x in imported(tree, trees) if x in trees and x != name}
        for name, tree in trees.items()
    }


def package_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def circle(modules: Mapping[str, set[str]]) -> list[str]:
    """The modules of a circle, if there is one."""
    try:
        TopologicalSorter(modules).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_circles_are_found() -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.b import c\n"
    inside = "def f():\n    import a.d\n"
    modules = {"a.b": None, "a.b.c": None, "a.d": None}
    assert list(imported(ast.parse(text + inside), modules)) == ["typing", "a.b.c"]
    assert circle({"x": {"y"}, "y": {"z"}, "z": {"x"}})
    assert not circle({"x": {"y"}, "y": set()})


def test_no_module_imports_what_imports_it() -> None:
    found = graph()
    open_ = {x for x in found if package_of(x) in _OPEN}
    closed = {name: into - open_ for name, into in found.items() if name not in open_}
    assert not circle(closed), " -> ".join(circle(closed))


def test_packages_import_those_below_them() -> None:
    floor = {f"portable.{x}": at for at, names in enumerate(_FLOORS) for x in names}
    wrong = [
        f"{name} imports {other}"
        for name, into in graph().items()
        for other in sorted(into)
        if package_of(name) in floor
        and package_of(other) in floor
        and package_of(name) != package_of(other)
        and floor[package_of(other)] <= floor[package_of(name)]
    ]
    assert not wrong, "; ".join(wrong)
