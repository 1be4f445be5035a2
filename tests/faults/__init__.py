"""Faults planted in the project's own kernels, one at a time, to see that each is found.

`table` lists them: where each stands, what is changed, which small run shows it, and what finds
it. `planting` changes a function, `runs` and `array_runs` are the runs, `trials` tries each fault
in a process of its own. ``python -m tests.faults.report`` prints the list and the share found.

To add one, find the place, write the change as Python, and name a run that passes through it.
"""
