"""Launches: which program, with what in its parameters, over which range.

`launchable` is what users index, `definition` a kernel's parameters and programs, `geometry` its
range. `launch` finds or makes a `plan`, whose arguments `packing` fills in; `enqueued` and
`call_cache` repeat the launches of an operation. `checking` runs `checked_kernels`; `strays` tells
of `stray_accesses` in a launch.
"""
