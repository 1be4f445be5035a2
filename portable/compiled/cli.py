"""The command ``portable compile``."""

from __future__ import annotations

import ast
import importlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from portable.compiled.compilation import compile_kernel
from portable.compiled.package import save_compiled
from portable.dtypes import named_in_kernels
from portable.errors import DTypeError, PortableError
from portable.lang.kernel import Kernel


@click.command("compile")
@click.argument("kernel")
@click.option(
    "--signature",
    "signatures",
    multiple=True,
    required=True,
    help="Types of the arguments, such as 'float, f32[:], f32[:, :]'; may be given several times.",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    help="For which; may be given several times; the one in use, if left out.",
)
@click.option("--workgroup", help="As launches will give it, such as 256 or 16x16.")
@click.option("--dimensions", default=1, type=click.IntRange(1, 3), help="Of the ndrange.")
@click.option("--constant", "constants", multiple=True, help="Such as TILE=16; several times.")
@click.option("--index64", is_flag=True, help="For arrays of 2**31 elements and more.")
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
def compile_kernels(
    kernel: str,
    signatures: tuple[str, ...],
    devices: tuple[str, ...],
    workgroup: str | None,
    dimensions: int,
    constants: tuple[str, ...],
    index64: bool,
    out: Path,
) -> None:
    """Compile KERNEL (module:name, or file.py:name) into a package.

    `portable.load_compiled` reads it on devices like those that it was compiled for, which then
    need no compiler. Types are int, float, bool and complex for Python's numbers, dtypes for
    NumPy's, f32[:] or f32[:, :] for arrays, and Points(f32[:], int) for structs of the module.
    """
    kernels = _kernel(kernel)
    try:
        made = [
            compile_kernel(
                kernels,
                signature,
                devices=devices,
                workgroup=_workgroup(workgroup),
                dimensions=dimensions,
                index64=index64,
                **dict(map(_constant, constants)),
            )
            for signature in signatures
        ]
        save_compiled(out, made)
    except OSError as error:
        raise click.ClickException(f"{out}: {error.strerror}") from None
    except PortableError as error:
        raise click.ClickException(str(error)) from None
    count = sum(len(compilation.variants) for compilation in made)
    click.echo(f"{count} programs of {kernels.__name__} in {out}.")


def _kernel(text: str) -> Kernel:
    module_path, _, name = text.rpartition(":")
    if not module_path or not name:
        raise click.UsageError(f"KERNEL {text}: expected module:name, or file.py:name")
    attribute: Any = _module(module_path)
    for part in name.split("."):
        attribute = getattr(attribute, part, None)
    if not isinstance(attribute, Kernel):
        there = sorted(n for n, x in vars(_module(module_path)).items() if isinstance(x, Kernel))
        listed = f"it has {', '.join(there)}" if there else "it has none"
        raise click.UsageError(f"KERNEL {text}: {module_path} has no kernel {name}; {listed}")
    return attribute


def _module(module_path: str) -> ModuleType:
    """A module by its name, looked for in the current folder too, or from a file."""
    try:
        if not module_path.endswith(".py"):
            sys.path.insert(0, "")
            return importlib.import_module(module_path)
        spec = spec_from_file_location(Path(module_path).stem, module_path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[spec.name] = module_from_spec(spec)
        spec.loader.exec_module(module)
    except (ImportError, OSError, SyntaxError) as error:
        raise click.UsageError(f"{module_path} cannot be imported: {error}") from None
    return module


def _workgroup(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        raise click.UsageError(f"--workgroup {text}: expected 256, 16x16 or the like") from None


def _constant(text: str) -> tuple[str, Any]:
    """A name and its value: a dtype, or a number, string, tuple, True, False or None of Python."""
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--constant {text}: expected NAME=VALUE")
    try:
        return name, named_in_kernels(value)
    except DTypeError:
        pass
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        raise click.UsageError(
            f"--constant {text}: the value is no number, string, tuple or dtype"
        ) from None
