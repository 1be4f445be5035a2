"""Packages of compiled kernels: made where there is a compiler, launched where there is none.

``portable compile module:kernel --signature "float, f32[:], f32[:]" --out FILE`` writes one,
`load_compiled` reads it. A package is a zip file of a JSON description and machine code; reading it
runs nothing, launching its kernels runs the machine code.
"""

from portable.compiled.compilation import Compilation, compile_kernel
from portable.compiled.package import Package, load_compiled, save_compiled

__all__ = ["Compilation", "Package", "compile_kernel", "load_compiled", "save_compiled"]
