"""Loads in loops of what the kernel writes, too: what they found is kept, one after the other.

Where a round's loads would find something else when it is run again, the first run writes down what
each found, and a variable counts; rounds that are run again read there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from portable.dtypes import DType, bool_
from portable.gradients.adjoint.names import Names
from portable.gradients.adjoint.reexecution import stale
from portable.gradients.adjoint.stack import Stack
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array
from portable.lang.ir.walks import map_block


@dataclass(frozen=True, slots=True)
class Log:
    """Where a load's findings are kept.

    Attributes
    ----------
    array : Array
    place : Variable
        The name of how many there were before.
    """

    array: Array
    place: e.Variable


def with_logs(program: Kernel, names: Names, stack: Stack) -> tuple[Kernel, dict[int, Log]]:
    """The flat program with variables that count such loads, and their logs by their identity."""
    loads = [x for x in stale(program) if isinstance(x.var.type, DType) and x.var.type is not bool_]
    if not loads:
        return program, {}
    kind, chosen = program.index_type, {id(x) for x in loads}
    cursors: list[e.Variable] = []
    logs: dict[int, Log] = {}

    def counted(x: s.Statement) -> s.Block:
        if not isinstance(x, s.Load) or id(x) not in chosen:
            return (x,)
        cursor, entry = names.variable("found", kind), names.variable("found", kind)
        cursors.append(cursor)
        logs[id(x)] = Log(stack.log(x.array.name, x.var.type, cursor), entry)
        after = e.Binary("add", entry, e.Const(1, kind))
        return (s.Let(entry, cursor, x.loc), x, s.Assign(cursor, after, x.loc))

    body = map_block(program.body, counted)
    first = tuple(s.Assign(x, e.Const(0, kind), program.loc) for x in cursors)
    variables = (*program.variables, *cursors)
    return replace(program, body=(*first, *body), variables=variables), logs
