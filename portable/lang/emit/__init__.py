"""From the IR to programs in OpenCL C, CUDA C++ and HIP C++.

One printer for the C family: `expressions`, `vectors`, `addresses`, `memory`, `statements`,
`loops`, `atomics`, put together by `kernels`. A language is a `dialect.Dialect`, a
table of spellings: `opencl`, `cuda`, `hip`; `around` changes it for compilers with faults. `facts`
proves what makes plain arithmetic and aligned vectors legal. Nothing above `generate` knows of C,
so that a language outside the family can stand beside it.
"""

from __future__ import annotations

from portable.backend import Capabilities, Program
from portable.errors import UnsupportedError
from portable.lang.emit.dialect import Dialect
from portable.lang.ir.kernel import Kernel

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
        If the kernel needs something that the device lacks.
    """
    from portable.lang.emit.around import steered
    from portable.lang.emit.kernels import print_kernel
    from portable.lang.passes import lower, reduced

    dialect = steered(_dialect(capabilities.dialect), capabilities.faults)
    kernel = reduced(lower(kernel, capabilities), capabilities, dialect.semantics)
    return print_kernel(kernel, capabilities, dialect)


def _dialect(name: str) -> Dialect:
    if name == "opencl":
        from portable.lang.emit.opencl import OPENCL

        return OPENCL
    if name == "cuda":
        from portable.lang.emit.cuda import CUDA

        return CUDA
    if name == "hip":
        from portable.lang.emit.hip import HIP

        return HIP
    raise UnsupportedError(
        f"no source is generated for {name!r} devices; those that compile take opencl, cuda or hip"
    )
