"""NVIDIA's and AMD's devices, by CuPy."""
