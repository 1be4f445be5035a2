"""Reductions along axes: sums, extremes and where they are, moments.

`axis` cuts an axis into sections and launches `kernels`. `merging` says how two totals become one,
`stateful` the same of totals that are more than a number.
"""
