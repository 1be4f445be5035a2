"""Orders of lines, by rank and by digits, and what is distinct in them.

`sorting` chooses: ranks for short lines (`sorting_kernels`), digits by workgroups (`sweep_sorting`)
or buckets on processors (`bucket_kernels`). `keys` are what all of them compare.
"""
