"""LLVM's intermediate representation as text, for processors; LLVM 22, opaque pointers.

One function does the work of a range of workgroups (see `kernels`). What is printed is for no
processor in particular: it names neither a triple nor a data layout, and what it asks of a
processor beyond the device's capabilities LLVM makes of other instructions. Assigned variables are
slots of the stack, which LLVM turns into registers; all else is in single assignment from the
start.
"""

from __future__ import annotations

from typing import Final

from portable.backend import Capabilities, Program
from portable.lang.emit.llvm.functions import NATIVE
from portable.lang.emit.llvm.kernels import print_kernel
from portable.lang.ir.kernel import Kernel
from portable.lang.passes.delays import delayed
from portable.lang.passes.semantics import Semantics
from portable.lang.passes.work_items import in_loops

__all__ = ["LLVM"]

_FLOATS: Final = ("f16", "f32", "f64")
_INTEGERS: Final = ("i32", "u32", "i64", "u64")


class _LLVM:
    """The language; see `portable.lang.emit.dialect.Language`."""

    semantics: Final = Semantics(
        signed_wraps=True,
        saturating=frozenset(f"{x}.{y}" for x in _FLOATS for y in _INTEGERS),
        functions=NATIVE,
    )

    def program(self, kernel: Kernel, capabilities: Capabilities) -> Program:
        """The program of a kernel that `portable.lang.passes.reduced` gave."""
        return print_kernel(delayed(in_loops(kernel)), capabilities)


LLVM: Final = _LLVM()
