"""Networks as files in the safetensors format."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from portable.errors import PortableError
from portable.files import write_whole

__all__ = ["ModelFileError", "blamed", "metadata", "read", "write"]

_State = dict[str, np.ndarray[Any, Any]]


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
    return _contents(path)[1]


def read(path: str | os.PathLike[str]) -> tuple[_State, tuple[int, ...], str]:
    """Parameters, sizes and activation of a network that was saved.

    Raises
    ------
    OSError
        If the file cannot be read.
    ModelFileError
        If it is no such file.
    """
    state, metadata = _contents(path)
    try:
        sizes = tuple(int(n) for n in metadata["sizes"].split(","))
        return state, sizes, metadata["activation"]
    except (KeyError, ValueError) as error:
        raise ModelFileError(
            f"{path} holds no network of portable.nn: its metadata {metadata} has no sizes and "
            "activation. Load other safetensors files with load_state_dict"
        ) from error


def _contents(path: str | os.PathLike[str]) -> tuple[_State, dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    Path(path).open("rb").close()
    try:
        with safe_open(path, framework="numpy") as file:
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return state, file.metadata() or {}
    except (SafetensorError, TypeError) as error:
        raise ModelFileError(f"{path} is damaged or no safetensors file: {error}") from error


@contextmanager
def blamed(path: str | os.PathLike[str]) -> Iterator[None]:
    """What is wrong with a file's contents, said with its name."""
    try:
        yield
    except (PortableError, ValueError, StopIteration) as error:
        raise ModelFileError(f"{path}: {error}") from error
