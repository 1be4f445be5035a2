"""The processor: NumPy arrays, and kernels by LLVM or by OpenCL runtimes, in their memory."""

from portable_backends.cpu.backend import CPUBackend

__all__ = ["CPUBackend"]
