"""Products of matrices.

`gemm` looks at operands once for arrays alike (`plan`) and takes the first of `launches` that the
device can run: of the table's tiles (`tuning`) those that should take the least time (`model`).
`kernels` multiplies tiles of operands that pass through local memory (`mainloop`); a schedule says
which tiles of the result a workgroup makes (`schedules`). `slim` has products with few columns,
`scaled` those of numbers of few bits. `rows` copies operands that would be read slowly where they
lie, and `repeats` keeps whole sequences of launches.
"""
