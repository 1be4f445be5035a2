"""Networks as files in the safetensors format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from portable.errors import PortableError
from portable.nn.layers.layer import Layer
from portable.nn.layout import layout_of
from portable.system.files import write_whole

_T = TypeVar("_T")
_State = dict[str, np.ndarray[Any, Any]]

_KINDS: Final = {"F16", "BF16", "F32", "F64"}
"""Element types of networks, as the format names them."""
_MOST_SHOWN: Final = 6


class ModelFileError(PortableError, ValueError):
    """A model file that is damaged, or holds something else than was asked for."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of which nothing but the head was read: its path, its head, its parts."""

    path: str | os.PathLike[str]
    metadata: Mapping[str, str]
    tensors: Any


def write(
    path: str | os.PathLike[str], state: Mapping[str, Any], metadata: Mapping[str, str]
) -> None:
    """Writes parameters and what describes them, whole or not at all.

    Parameters
    ----------
    path : path
    state : mapping of str to numpy.ndarray
        Parameters by name.
    metadata : mapping of str to str
        What describes them.
    """
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
    with opened(path) as file:
        return dict(file.metadata)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[ModelFile]:
    """A file to be read.

    Raises
    ------
    OSError
        If the file cannot be read.
    ModelFileError
        If it is no such file.
    """
    from safetensors import SafetensorError, safe_open

    Path(path).open("rb").close()
    try:
        with safe_open(path, framework="numpy") as file:
            yield ModelFile(path, file.metadata() or {}, file)
    except (SafetensorError, TypeError) as error:
        raise ModelFileError(f"{path} is damaged or no safetensors file: {error}") from error


def described(file: ModelFile, what: str, read: Callable[[Mapping[str, str]], _T]) -> _T:
    """What a network's metadata say, by a function that raises where they do not say it.

    Parameters
    ----------
    file : ModelFile
    what : str
        What is looked for, for the message.
    read : callable
        From the metadata to what they say.

    Raises
    ------
    ModelFileError
        Which says that the file has no `what`.
    """
    try:
        return read(file.metadata)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFileError(
            f"{file.path} holds no network of portable.nn: its metadata "
            f"{dict(file.metadata)!r:.200} has no {what} ({error!s:.200}). Load other safetensors "
            "files with load_state_dict"
        ) from error


def read(
    file: ModelFile, layers: Sequence[Layer], whole: str, *, check_finite: bool = True
) -> _State:
    """The parameters of these layers; `whole` names them all in messages.

    Parameters
    ----------
    file : ModelFile
    layers : sequence of Layer
    whole : str
        What they are called in messages.
    check_finite : bool
        Whether to refuse NaN and infinities.

    Raises
    ------
    ModelFileError
        If the file holds others, before memory is taken for them, or NaN or infinities where that
        is checked.
    """
    parameters = layout_of(layers).shapes()
    wanted = {**parameters, **layout_of(layers, lambda layer: layer.buffers()).shapes()}
    with blamed(file.path):
        _check_parts(file.tensors, wanted, whole)
        _check_types(file.tensors, parameters)
    state = {name: file.tensors.get_tensor(name) for name in wanted}
    bad = [name for name, part in state.items() if not np.isfinite(part).all()]
    if check_finite and bad:
        raise ModelFileError(
            f"{file.path}: {', '.join(bad)} hold NaN or infinities, of which nothing can be "
            "computed; check_finite=False loads them all the same"
        )
    return state


def _check_parts(file: Any, wanted: Mapping[str, tuple[int, ...]], whole: str) -> None:
    """Compares what the metadata say with what is there, before any of it is read.

    Raises
    ------
    ModelFileError
        If they differ.
    """
    parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    missing = [name for name in wanted if name not in parts]
    if missing:
        raise ModelFileError(f"{whole} has {shown(missing)}, too")
    unknown = [name for name in parts if name not in wanted]
    if unknown:
        raise ModelFileError(f"{whole} has no {shown(unknown)}")
    for name, shape in wanted.items():
        result = tuple(parts[name].get_shape())
        if result != shape:
            raise ModelFileError(f"{name} has shape {result}; {whole} asks for {shape}")


def _check_types(file: Any, parameters: Iterable[str]) -> None:
    """Raises unless parameters are all of one type, and all types those of networks."""
    kinds = {file.get_slice(name).get_dtype() for name in parameters}
    if len(kinds) > 1 or not kinds <= _KINDS:
        raise ModelFileError(
            f"parameters are {' and '.join(sorted(kinds))}; networks are all of one of "
            f"{', '.join(sorted(_KINDS))}"
        )


def shown(items: Sequence[object]) -> str:
    """A few of them."""
    first = ", ".join(map(str, items[:_MOST_SHOWN]))
    return first if len(items) <= _MOST_SHOWN else f"{first}, ... ({len(items)})"


@contextmanager
def blamed(path: str | os.PathLike[str]) -> Iterator[None]:
    """What is wrong with a file's contents, said with its name."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error.__cause__
    except (PortableError, ValueError) as error:
        raise ModelFileError(f"{path}: {error}") from error
