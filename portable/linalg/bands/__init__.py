"""Bands to bidiagonal form: the chase of bulges, and wider bands made narrower.

`band` is what is called. `shapes` chooses a plan for a device, and `plan` says what plans there
are: stages that make a band narrower, and one that leaves two diagonals. A stage works by lone
work-items (`hops`, `products`), by work-items side by side (`items`) or by sub-groups (`panels`,
`ring` with `tiles`). `kernels` has the kernels that are launched, and how packs of sweeps wait for
each other.
"""
