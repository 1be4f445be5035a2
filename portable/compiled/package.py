"""The file of a package, and the kernels that are read from it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, Final

from portable import registry
from portable.backend import Device
from portable.compiled.compilation import Compilation, Variant, facts_of
from portable.compiled.descriptions import (
    described,
    parameters_from,
    program_from,
    serves,
    specificity,
)
from portable.errors import DataError, DeviceError, LaunchError
from portable.lang.arguments.arguments import Specialisation
from portable.lang.launch.definition import Compiled, Traits
from portable.lang.launch.launchable import Launchable
from portable.system.files import write_whole
from portable.system.locks import fork_safe_lock

_FORMAT: Final = 2
_MANIFEST: Final = "manifest.json"
_MOST_ADDED: Final = 2**25
_MOST_TIMES: Final = 32
_MOST_SAID: Final = 2**24
"""Bytes in a package: so many and so many times those of the file; of its manifest."""


def save_compiled(path: str | PathLike[str], compilations: Sequence[Compilation]) -> None:
    """Write a package of compiled kernels; those of one name are one kernel.

    Parameters
    ----------
    path : str or path-like
        The file, which is replaced as a whole.
    compilations : sequence of Compilation
        What `compile_kernel` made.

    Raises
    ------
    LaunchError
        If kernels of one name take different arguments, or do something else for the same ones.
    OSError
        If the file cannot be written.
    """
    kernels: dict[str, dict[str, Any]] = {}
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        for compilation in compilations:
            entry = kernels.setdefault(
                compilation.name, {"parameters": compilation.parameters, "variants": []}
            )
            if entry["parameters"] != compilation.parameters:
                raise LaunchError(f"two kernels named {compilation.name} take different arguments")
            for variant in compilation.variants:
                result = {"facts": variant.facts, **variant.description}
                for part, held_as in (("code", variant.code), ("source", variant.source.encode())):
                    result[part] = digest = sha256(held_as).hexdigest()
                    if digest not in file.namelist():
                        file.writestr(digest, held_as)
                _refuse_another(compilation.name, entry["variants"], result)
                entry["variants"].append(result)
        file.writestr(_MANIFEST, json.dumps({"format": _FORMAT, "kernels": kernels}, indent=1))
    write_whole(path, held.getvalue())


def _refuse_another(name: str, variants: list[dict[str, Any]], entry: dict[str, Any]) -> None:
    """Refuses two kernels that one launch fits, as closures of one function are.

    Compilers may make other machine code of the same text each time.
    """
    same = ("facts", "specialisation")
    for other in variants:
        if all(other[key] == entry[key] for key in same) and other["text"] != entry["text"]:
            raise LaunchError(
                f"two kernels named {name} take the same arguments and do not do the same; a "
                "package holds one of them: name them apart, or give what they differ in as a "
                "keyword-only constant"
            )


class Package(Mapping[str, "LoadedKernel"]):
    """Kernels by name, also as attributes: ``package["saxpy"]``, ``package.saxpy``.

    Parameters
    ----------
    path : Path
        Where it is from, for errors.
    kernels : dict
        The kernels.
    """

    def __init__(self, path: Path, kernels: dict[str, LoadedKernel]) -> None:
        self._path = path
        self._kernels = kernels

    def __getitem__(self, name: str) -> LoadedKernel:
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __getattr__(self, name: str) -> LoadedKernel:
        if name.startswith("_") or name not in self._kernels:
            raise AttributeError(f"{self._path} has no kernel {name}; it has {', '.join(self)}")
        return self._kernels[name]

    def __repr__(self) -> str:
        return f"<portable package {self._path}: {', '.join(self)}>"


class LoadedKernel(Launchable):
    """A kernel of a package: launched as any other, for what it was compiled for."""

    def __init__(
        self, path: Path, name: str, parameters: Mapping[str, Any], variants: Sequence[Variant]
    ) -> None:
        takes, options = parameters_from(parameters)
        super().__init__(options, takes)
        self.__name__ = name
        self._path = path
        self._variants = variants
        self._loaded: dict[tuple[str, int], Compiled] = {}
        self._lock = fork_safe_lock()

    def fits(self, device: Device) -> bool:
        """Whether it was compiled for such a device, or can be compiled there."""
        facts = facts_of(device)
        return any(v.facts == facts or v.compiles_on(facts) for v in self._variants)

    def compiled(self, wanted: Specialisation, device: Device) -> Compiled:
        """The program that serves a specialisation, loaded."""
        variant = self._variant(wanted, device)
        key = device.name, self._variants.index(variant)
        with self._lock:
            if key not in self._loaded:
                program = program_from(variant.description["program"], variant.source)
                if variant.facts == facts_of(device):
                    executable = device.load(program, variant.code)
                else:
                    executable = device.compile(program)
                self._loaded[key] = Compiled(None, program.arguments, executable, program)
            return self._loaded[key]

    def traits(self, wanted: Specialisation, device: Device) -> Traits:
        """What plans of launches ask of it."""
        known = self._variant(wanted, device).description
        return Traits(frozenset(known["written"]), int(known["dimensions"]), bool(known["exact"]))

    def _variant(self, wanted: Specialisation, device: Device) -> Variant:
        """The one that takes most for granted of those that serve.

        Raises
        ------
        DeviceError
            If there is none for the device.
        LaunchError
            If there is none for such a launch.
        """
        asked, facts = described(wanted), facts_of(device)
        here = [v for v in self._variants if v.facts == facts]
        here = here or [v for v in self._variants if v.compiles_on(facts)]
        if not here:
            raise misfit(self._path, self._variants, device)
        serving = [v for v in here if serves(v.description["specialisation"], asked)]
        if not serving:
            known = "\n  ".join(sorted({_summary(v.description["specialisation"]) for v in here}))
            raise LaunchError(
                f"{self._path} holds {self.__name__} for\n  {known}\nand it is launched as\n  "
                f"{_summary(asked)}\nCompile it for that, too: portable compile --signature ..."
            )
        return max(serving, key=lambda v: specificity(v.description["specialisation"]))


def _summary(description: Mapping[str, Any]) -> str:
    """A specialisation as a user would write it."""
    types = ", ".join(_type(spec) for spec in description["parameters"])
    text = f"({types}) in workgroups of {tuple(description['workgroup'])}"
    constants = ", ".join(f"{k}={v[-1]}" for k, v in description["constants"].items())
    wide = ", with 64-bit indices" if description["index64"] else ""
    return text + (f", {constants}" if constants else "") + wide


def _type(spec: Mapping[str, Any]) -> str:
    if "struct" in spec:
        return f"{spec['struct']}({', '.join(map(_type, spec['items']))})"
    if "array" in spec:
        dims = [":"] * len(spec["strides"])
        if dims and spec["strides"][-1] == "unit":
            dims[-1] = "::1"
        return f"{spec['array']}[{', '.join(dims)}]"
    if "scalar" in spec:
        return spec["dtype"] or str(spec["scalar"])
    return str(spec["constant"][-1])


def misfit(path: Path, variants: Sequence[Variant], device: Device) -> DeviceError:
    """The package is for other devices."""
    seen: list[dict[str, str]] = []
    for variant in variants:
        if variant.facts not in seen:
            seen.append(variant.facts)
    made = "; or ".join(_facts(facts) for facts in seen)
    return DeviceError(
        f"{path} was compiled for {made}, and {device.name} is {_facts(facts_of(device))}; compile "
        f"it again where there is a compiler: portable compile --device {device.name}"
    )


def _facts(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def load_compiled(path: str | PathLike[str], *, device: str | Device | None = None) -> Package:
    """Read a package of compiled kernels; no compiler is needed, and nothing is run yet.

    Where a device has another driver than the one that compiled them, and is alike otherwise, its
    own compiler makes programs of the text that packages hold beside the machine code.

    Launching its kernels runs the machine code in it: take packages from those alone whose programs
    you would run.

    Parameters
    ----------
    path : str or path-like
        The file.
    device : str, Device or None
        What it has to fit; None means the device in use.

    Returns
    -------
    Package
        Its kernels by name.

    Raises
    ------
    DataError
        If the file is no package, or damaged.
    DeviceError
        If a kernel in it was compiled for other devices.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> package = pt.load_compiled("saxpy.zip")  # doctest: +SKIP
    >>> package.saxpy[n, 256](2.0, x, y)  # doctest: +SKIP
    """
    where = Path(path)
    data = where.read_bytes()
    try:
        kernels = _read(where, data)
    except Exception as error:  # noqa: BLE001  (a damaged archive meets errors of many libraries)
        raise DataError(f"{where} is no package of compiled kernels: {error}") from None
    chosen = registry.device(device)
    for kernel in kernels.values():
        if not kernel.fits(chosen):
            raise misfit(where, kernel._variants, chosen)
    return Package(where, kernels)


def _read(path: Path, data: bytes) -> dict[str, LoadedKernel]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        _require_moderate(file, len(data))
        manifest = json.loads(file.read(_MANIFEST))
        if manifest["format"] != _FORMAT:
            raise ValueError(f"its format is {manifest['format']!r}, and {_FORMAT} is read here")
        code = {name: file.read(name) for name in set(file.namelist()) - {_MANIFEST}}
    for digest, content in code.items():
        if sha256(content).hexdigest() != digest:
            raise ValueError("machine code in it is damaged")
    return {
        name: LoadedKernel(
            path, name, entry["parameters"], [_variant(code, x) for x in entry["variants"]]
        )
        for name, entry in manifest["kernels"].items()
    }


def _require_moderate(file: zipfile.ZipFile, size: int) -> None:
    """Refuses what would fill the memory: no machine code is compressed so much."""
    names = [entry.filename for entry in file.infolist()]
    if len(set(names)) < len(names):
        raise ValueError("a name is in it twice")
    whole = sum(entry.file_size for entry in file.infolist())
    if whole > _MOST_ADDED + _MOST_TIMES * size or file.getinfo(_MANIFEST).file_size > _MOST_SAID:
        raise ValueError(f"its {size} bytes would become {whole}, more than a package has")


def _variant(code: dict[str, bytes], entry: dict[str, Any]) -> Variant:
    program_from(entry["program"])  # what is wrong with it shows here
    names = ("specialisation", "program", "written", "dimensions", "exact")
    source = code[entry["source"]].decode() if "source" in entry else ""
    described = {name: entry[name] for name in names}
    return Variant(dict(entry["facts"]), described, code[entry["code"]], source)
