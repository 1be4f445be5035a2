"""Instructions of one device, which the passes put in place of what the language offers.

Each family has a module that registers how its instructions run, by name or by the beginning of
the name up to a dot: `mbarriers`, `bulk_copies` and `matrix_units`. What they mean is written from
the PTX manual alone, and knows nothing of the tables by which kernels are lowered.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final

from portable.errors import UnsupportedError
from portable.lang.ir import statements as s
from portable.sim.control import assign
from portable.sim.copies import Copies
from portable.sim.steps import Builder, Plain, Step, step
from portable.sim.values import Value
from portable.sim.workgroup import Workgroup

_Made = Callable[[s.Instruction, Builder], Step]
_KNOWN: Final[dict[str, _Made]] = {}


def instruction(*names: str) -> Callable[[_Made], _Made]:
    """Registers what makes the step of the instructions of these names."""

    def register(made: _Made) -> _Made:
        _KNOWN.update(dict.fromkeys(names, made))
        return made

    return register


@step.register
def _(statement: s.Instruction, b: Builder) -> Step:
    name = statement.name
    while name not in _KNOWN:
        name, dot, _ = name.rpartition(".")
        if not dot:
            raise UnsupportedError(f"{statement.loc}: {statement.name} is not simulated")
    return _KNOWN[name](statement, b)


Meaning = Callable[[list[Value], list[Value]], list[Value]]


def worked_out(statement: s.Instruction, b: Builder, items: int, meaning: Meaning) -> Step:
    """The step of what gives outputs new values, from their old ones and the inputs.

    `items` neighbours execute it together.

    Parameters
    ----------
    statement : Instruction
    b : Builder
    items : int
    meaning : callable
        From the old outputs and the inputs to the new outputs.
    """
    site = b.site(statement.loc)
    inputs = b.expressions(statement.inputs, site)
    outputs = tuple(v.name for v in statement.outputs)

    def run(w: Workgroup) -> None:
        w.meet_sub_groups(site, statement.name, items)
        values = meaning([w.env[name] for name in outputs], [x(w) for x in inputs])
        for name, value in zip(outputs, values, strict=True):
            assign(w, name, value)

    return Plain(run)


def _copies(statement: s.Instruction) -> Callable[[Workgroup], Copies]:
    """What keeps the copies that an instruction is about: by work-items, or by the copy engine."""
    return attrgetter("bulk" if statement.name.startswith("bulk") else "copies")


@instruction("cp.async.commit", "bulk.commit")
def _(statement: s.Instruction, b: Builder) -> Step:
    copies = _copies(statement)
    return Plain(lambda w: copies(w).commit(w.active.ids))


@instruction("cp.async.wait", "bulk.wait")
def _(statement: s.Instruction, b: Builder) -> Step:
    copies, pending = _copies(statement), b.constant(statement.inputs[0])
    return Plain(lambda w: copies(w).wait(w, w.active.ids, pending))


@instruction("proxy.fence")
def _(statement: s.Instruction, b: Builder) -> Step:
    everywhere = statement.name == "proxy.fence.all"
    return Plain(lambda w: w.proxies.fence(w, everywhere))


@instruction("pause", "prefetch", "registers.more", "registers.fewer")
def _(statement: s.Instruction, b: Builder) -> Step:
    """Nothing: what is fetched ahead is not looked at, and may be no element."""
    return Plain(lambda w: None)
