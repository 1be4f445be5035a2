"""Modules of the project with a fault planted in them, to see that it is found."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def planted(module: ModuleType, folder: Path, *changes: tuple[str, str]) -> ModuleType:
    """A module like this one but for some of its text; the original is left as it is.

    Parameters
    ----------
    module : module
        The original.
    folder : Path
        Where the changed text is kept, since kernels are compiled from it.
    *changes : (str, str)
        A passage, which must stand in the text once, and what stands there instead.
    """
    assert module.__file__ is not None
    text = Path(module.__file__).read_text()
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {module.__name__}"
        text = text.replace(old, new)
    name = f"planted_{module.__name__.rpartition('.')[2]}"
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
