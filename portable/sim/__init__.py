"""The simulator: the kernel language's living definition, run on NumPy arrays.

`run` takes a kernel of `portable.lang.ir` and its arguments, runs it exactly as the language
says, and raises one of `errors` at the first fault, with the place in the user's source. Given a
device's capabilities it runs what would be emitted for that device.
`checks` switches what is checked, for the launches inside a ``with`` block.

Where to read what a statement means: plain accesses in `atomics` and `memory`, atomics beside them,
`control` flow and which part of a workgroup runs when, `collectives`, asynchronous `transfers` and
`copies`, matrix `fragments`; expressions in `evaluation`, arithmetic in `values`; what orders
accesses in `clocks` and `races`; which workgroup runs when in `run`. What passes make of copies and
fragments: `instructions` of devices, by `mbarriers`, `bulk_copies` and `matrix_units`; what is
under way beside the work-items, and what it sees, in `copies` and `products`.

A workgroup is put together in `group`, `memory`, `copies` and `workgroup`, each adding what the
modules above it ask for, so that none imports what imports it. `steps` makes functions of it of
statements. Of memory `shadow` holds what is known beside its contents, `in_flight` what copies and
multiplications have yet to do with it, `allocations` what was never written.
"""

from portable.sim.allocations import empty
from portable.sim.launch import SCHEDULES, Settings, checks
from portable.sim.run import Simulation, run

__all__ = ["SCHEDULES", "Settings", "Simulation", "checks", "empty", "run"]
