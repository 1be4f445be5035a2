"""Imports point down, and never round in a circle, those for type checkers included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import pytest

import portable
import portable_backends

_ROOT: Final = Path(portable.__file__).parent
_BACKENDS: Final = Path(portable_backends.__file__).parent

_FLOORS: Final[tuple[tuple[str, ...], ...]] = (
    ("forecast",),
    ("nn",),
    ("gradients",),
    ("conv", "gf2", "numerics", "random"),
    ("array",),
    ("array.methods", "array.fusion"),
    ("array.functions",),
    ("array.base", "array.fourier"),
    ("linalg",),
    ("parallel",),
    ("primitives",),
    ("sim",),
    ("tune",),
    ("lang",),
    ("interchange",),
    ("profiling",),
    ("backend",),
    ("system",),
)
"""The packages from the top down; modules beside them belong to none."""

_ROOMS: Final[dict[str, tuple[str, ...]]] = {
    "portable.lang": (
        "launch",
        "emit",
        "passes",
        "tiles",
        "frontend",
        "checks",
        "words",
        "arguments",
        "ir",
    ),
    "portable.linalg": (
        "cli",
        "spectral",
        "singular_values",
        "bands",
        "factorisations",
        "dense",
        "reflectors",
        "products",
        "base",
    ),
}
"""The folders within a package from the top down; files beside them belong to none."""

_FAMILIES: Final[dict[str, set[str]]] = {
    "cpu": {"common", "opencl"},
    "cuda": {"common"},
    "opencl": {"common"},
    "simulator": {"common"},
    "sycl": {"common", "opencl"},
    "common": set(),
}
"""The folders of backends, and those that each imports."""

_OPTIONAL: Final = {"cupy", "cupy_backends", "dpctl", "dpnp", "llvmlite", "pyopencl", "torch"}
"""Libraries of devices, any of which may be missing."""

_CLOSED: Final = "array"
"""A package whose functions import nothing when they run that imports them."""


def imported(
    tree: ast.AST, modules: Mapping[str, object], *, running: bool = False, checked: bool = True
) -> Iterator[str]:
    """The modules that a text imports when it is loaded.

    And when functions run, if `running`; and when its types are checked, if `checked`.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.If) and not checked and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif running or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imported(node, modules, running=running, checked=checked)


@cache
def trees_of(root: Path) -> dict[str, ast.Module]:
    """The modules of a package as they are parsed, by name."""
    trees = {}
    for path in sorted(root.rglob("*.py")):
        parts = (root.name, *path.relative_to(root).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


@cache
def graph(*, running: bool = False, root: Path = _ROOT) -> dict[str, set[str]]:
    """What each module of a package imports of it."""
    trees = trees_of(root)
    return {
        name: {x for x in imported(tree, trees, running=running) if x in trees and x != name}
        for name, tree in trees.items()
    }


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def room_of(module: str) -> str:
    """The package of the floors that a module is of: that within another, if it has a floor."""
    inner = ".".join(module.split(".")[1:3])
    return inner if any(inner in names for names in _FLOORS) else package_of(module)


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
    tree = ast.parse(text + inside)
    assert list(imported(tree, modules)) == ["typing", "a.b.c"]
    assert list(imported(tree, modules, running=True)) == ["typing", "a.b.c", "a.d"]
    assert circle({"x": {"y"}, "y": {"z"}, "z": {"x"}})
    assert not circle({"x": {"y"}, "y": set()})


def test_no_module_imports_what_imports_it() -> None:
    found = circle(graph())
    assert not found, " -> ".join(found)


def test_functions_of_arrays_import_none_that_import_them() -> None:
    whole = graph(running=True)
    found = circle({name: into for name, into in whole.items() if package_of(name) == _CLOSED})
    assert not found, " -> ".join(found)


def test_packages_import_those_below_them() -> None:
    floor = {x: at for at, names in enumerate(_FLOORS) for x in names}
    wrong = [
        f"{name} imports {other}"
        for name, into in graph().items()
        for other in sorted(into)
        if room_of(name) in floor
        and room_of(other) in floor
        and room_of(name) != room_of(other)
        and floor[room_of(other)] <= floor[room_of(name)]
    ]
    assert not wrong, "; ".join(wrong)


@pytest.mark.parametrize("package", _ROOMS)
def test_rooms_import_those_below_them(package: str) -> None:
    floor = {f"{package}.{x}": at for at, x in enumerate(_ROOMS[package])}
    depth = package.count(".") + 2
    wrong = [
        f"{name} imports {other}"
        for name, into in graph().items()
        for other in sorted(into)
        if (above := ".".join(name.split(".")[:depth])) in floor
        and (below := ".".join(other.split(".")[:depth])) in floor
        and floor[below] < floor[above]
    ]
    assert not wrong, "; ".join(wrong)


def test_families_of_devices_import_what_they_share_and_no_other() -> None:
    assert not circle(_FAMILIES)
    wrong = [
        f"{name} imports {other}"
        for name, into in graph(running=True, root=_BACKENDS).items()
        for other in sorted(into)
        if package_of(name) != package_of(other)
        and package_of(other) not in _FAMILIES[package_of(name)]
    ]
    assert not wrong, "; ".join(wrong)


def test_backends_say_what_is_missing_where_a_library_is() -> None:
    trees = trees_of(_BACKENDS)
    entries = {
        entry.value.partition(":")[0]
        for entry in entry_points(group="portable.backends")
        if entry.value.startswith(_BACKENDS.name)
    }
    wrong, loaded = [], sorted(entries)
    for name in loaded:  # it grows while it is gone through
        into = sorted(set(imported(trees[name], trees, checked=False)))
        loaded += [x for x in into if x in trees and x not in loaded]
        wrong += [f"{name} imports {x}" for x in into if x.partition(".")[0] in _OPTIONAL]
    assert {package_of(x) for x in loaded} >= {"cpu", "cuda", "opencl", "simulator", "sycl"}
    assert not wrong, "; ".join(wrong)
