"""The device families that come with Portable, each found through ``portable.backends``.

A folder a family, its class in `backend`: `cuda` (NVIDIA's devices, and AMD's by ROCm), `opencl`,
`sycl`, `cpu` and `simulator`; `common` is what several of them share. `sycl` and `cpu` take the
OpenCL runtime's work where they have none of their own.
"""
