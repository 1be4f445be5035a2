"""Functions of arrays run as one kernel: what is written down of them, and the kernels."""
