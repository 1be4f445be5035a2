"""Work spread over several devices and processes: groups, and what their members tell each other.

A *group* has *members*, each with a device of its own. A function runs once for each member, which
is told its rank; what it sends, gathers and sums goes through the library that the vendor has for
it (NCCL, RCCL), through MPI between processes, and through the host's memory elsewhere. The same
program runs on four GPUs of a machine, on a hundred processes, or on a device that plays all
members for a test.

>>> import numpy as np
>>> from portable import parallel
>>> def share(member):
...     x = np.full(2, member.rank + 1.0)
...     return member.all_reduce(x).tolist()
>>> parallel.group(["simulator", "simulator"]).run(share)
[[3.0, 3.0], [3.0, 3.0]]
"""

from portable.parallel.group import Group, group
from portable.parallel.meeting import ParallelError
from portable.parallel.member import Member, Transfer

__all__ = ["Group", "Member", "ParallelError", "Transfer", "group"]
