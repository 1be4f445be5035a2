"""From the IR to programs in the languages of devices.

`dialect` finds the language that a device takes among those that are installed. The C family
has one printer: `expressions`, `vectors`, `addresses`, `memory`, `statements` and `atomics`
(neighbours at once by `atomic_runs`), put together by `kernels`, on what `context` holds for all.
A language in it is a `dialect.Dialect`, a table of spellings: `opencl`, `cuda`, `hip`, which
`dialect.steered` changes for compilers with faults. Nothing in this module knows of C, so that a
language outside the family stands beside it (`dialect.Language`), as `llvm` does.
"""

from __future__ import annotations

from portable.backend import Capabilities, Program
from portable.lang.emit.dialect import Dialect, language, steered
from portable.lang.emit.kernels import print_kernel
from portable.lang.ir.kernel import Kernel
from portable.lang.passes import reduced
from portable.lang.tiles import lower

__all__ = ["generate"]


def generate(kernel: Kernel, capabilities: Capabilities) -> Program:
    """The program of a kernel for a device.

    Parameters
    ----------
    kernel : Kernel
        Checked and typed, as the front end gives it.
    capabilities : Capabilities
        Of the device; ``dialect`` chooses the language.

    Raises
    ------
    UnsupportedError
        If the kernel needs something that the device lacks, or the language is not installed.
    """
    spoken = language(capabilities.dialect)
    kernel = reduced(lower(kernel, capabilities), capabilities, spoken.semantics)
    if isinstance(spoken, Dialect):
        dialect = steered(spoken.varied(spoken, capabilities), capabilities.faults)
        return print_kernel(kernel, capabilities, dialect)
    return spoken.program(kernel, capabilities)
