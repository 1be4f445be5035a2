"""Networks as files in the safetensors format."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from portable.errors import PortableError
from portable.files import write_whole
from portable.nn.layout import checked_sizes, layout_of

__all__ = ["ModelFileError", "blamed", "metadata", "read", "write"]

_State = dict[str, np.ndarray[Any, Any]]

_KINDS: Final = {"F16", "F32", "F64"}
"""Element types of networks, as the format names them."""
_MOST_SHOWN: Final = 6


class ModelFileError(PortableError, ValueError):
    """A model file that is damaged, or holds something else than was asked for."""


def write(
    path: str | os.PathLike[str], state: Mapping[str, Any], metadata: Mapping[str, str]
) -> None:
    """Writes parameters and what describes them, whole or not at all."""
    from safetensors.numpy import save

    write_whole(path, save(dict(state), dict(metadata)))


def metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """What describes the parameters in a file.

    Raises
    ------
    OSError
        If the file cannot be read.
    ModelFileError
        If it is no such file.
    """
    with _opened(path) as file:
        return file.metadata() or {}


def read(
    path: str | os.PathLike[str], *, check_finite: bool = True
) -> tuple[_State, tuple[int, ...], str]:
    """Parameters, sizes and activation of a network that was saved.

    Raises
    ------
    OSError
        If the file cannot be read.
    ModelFileError
        If it is no such file, or holds NaN or infinities where that is checked.
    """
    with _opened(path) as file:
        sizes, activation = _described(path, file.metadata() or {})
        with blamed(path):
            _check_parts(file, sizes)
        state = {name: file.get_tensor(name) for name, _, _ in layout_of(sizes).parts()}
    bad = [name for name, part in state.items() if not np.isfinite(part).all()]
    if check_finite and bad:
        raise ModelFileError(
            f"{path}: {', '.join(bad)} hold NaN or infinities, of which nothing can be computed; "
            "check_finite=False loads them all the same"
        )
    return state, sizes, activation


def _described(
    path: str | os.PathLike[str], metadata: Mapping[str, str]
) -> tuple[tuple[int, ...], str]:
    """Sizes and activation."""
    try:
        sizes = tuple(int(n) for n in metadata["sizes"].split(","))
        return sizes, metadata["activation"]
    except (KeyError, ValueError) as error:
        raise ModelFileError(
            f"{path} holds no network of portable.nn: its metadata {dict(metadata)!r:.200} has no "
            "sizes and activation. Load other safetensors files with load_state_dict"
        ) from error


def _check_parts(file: Any, sizes: Sequence[int]) -> None:
    """Compares what the metadata say with what is there, before any of it is read.

    Raises
    ------
    ModelFileError, ShapeError
        If they differ, or the types are not all one of those that networks have.
    """
    wanted = {name: shape for name, _, shape in layout_of(checked_sizes(sizes)).parts()}
    parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    missing = [name for name in wanted if name not in parts]
    if missing:
        raise ModelFileError(f"a network of sizes {_shown(sizes)} has {_shown(missing)}, too")
    unknown = [name for name in parts if name not in wanted]
    if unknown:
        raise ModelFileError(f"a network of sizes {_shown(sizes)} has no {_shown(unknown)}")
    for name, shape in wanted.items():
        found = tuple(parts[name].get_shape())
        if found != shape:
            raise ModelFileError(f"{name} has shape {found}; sizes {_shown(sizes)} ask for {shape}")
    kinds = {part.get_dtype() for part in parts.values()}
    if len(kinds) > 1 or not kinds <= _KINDS:
        raise ModelFileError(
            f"parameters are {' and '.join(sorted(kinds))}; networks are all of one of "
            f"{', '.join(sorted(_KINDS))}"
        )


def _shown(items: Sequence[object]) -> str:
    """A few of them."""
    shown = ", ".join(map(str, items[:_MOST_SHOWN]))
    return shown if len(items) <= _MOST_SHOWN else f"{shown}, ... ({len(items)})"


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    Path(path).open("rb").close()
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (SafetensorError, TypeError) as error:
        raise ModelFileError(f"{path} is damaged or no safetensors file: {error}") from error


@contextmanager
def blamed(path: str | os.PathLike[str]) -> Iterator[None]:
    """What is wrong with a file's contents, said with its name."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error.__cause__
    except (PortableError, ValueError) as error:
        raise ModelFileError(f"{path}: {error}") from error
