"""Gradients of kernels and of programs made of them: right, or refused with the line at fault.

`vjp` is the adjoint of a kernel, itself a kernel; a `Tape` goes back through launches and
operations; `custom_vjp` gives a kernel or a function an adjoint of one's own.
"""

from __future__ import annotations

from portable.gradients.custom import CustomFunction, custom_vjp
from portable.gradients.frameworks import for_jax, for_torch
from portable.gradients.kernels import AdjointKernel, AdjointLauncher, vjp
from portable.gradients.tape import Tape

__all__ = [
    "AdjointKernel",
    "AdjointLauncher",
    "CustomFunction",
    "Tape",
    "custom_vjp",
    "for_jax",
    "for_torch",
    "vjp",
]
