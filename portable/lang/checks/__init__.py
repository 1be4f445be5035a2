"""Checks on whole kernels, after translation and before any lowering."""

from __future__ import annotations

from portable.lang.checks.uniformity import check_uniformity
from portable.lang.ir.kernel import Kernel

__all__ = ["check"]


def check(kernel: Kernel) -> None:
    """Runs every check.

    Raises
    ------
    KernelError
        At the first one that fails.
    """
    check_uniformity(kernel)
