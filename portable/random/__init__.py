"""Random arrays on every device, the same numbers on each.

`Generator` fills arrays of a device's own library. The method is Philox 4x32-10, whose numbers are
a function of a seed and a position; kernels draw from it by ``kl.random``.
"""

from portable.random.generator import Generator

__all__ = ["Generator"]
