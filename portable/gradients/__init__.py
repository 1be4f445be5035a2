"""Gradients of kernels and of what is made of them: right, or refused by the line.

`vjp` is the adjoint of a kernel, itself a kernel.
"""

from __future__ import annotations

from portable.gradients.kernels import AdjointKernel, AdjointLauncher, vjp

__all__ = ["AdjointKernel", "AdjointLauncher", "vjp"]
