"""Instructions of one device, which the passes put in place of what the language offers.

Each family has a module that registers how its instructions run, by name or by the beginning of the
name up to a dot: `mbarriers`, `bulk`, `matrix_units`, `warpgroups`. What they mean is written
from the PTX manual alone, and knows nothing of the tables by which kernels are lowered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from portable.errors import UnsupportedError
from portable.lang.ir import statements as s
from portable.sim.control import assign
from portable.sim.expressions import Builder, Plain, Step, step
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


@instruction("cp.async.commit")
def _(statement: s.Instruction, b: Builder) -> Step:
    return Plain(lambda w: w.copies.commit(w.active.ids))


@instruction("cp.async.wait")
def _(statement: s.Instruction, b: Builder) -> Step:
    pending = b.constant(statement.inputs[0])
    return Plain(lambda w: w.copies.wait(w, w.active.ids, pending))


@instruction("proxy.fence")
def _(statement: s.Instruction, b: Builder) -> Step:
    everywhere = statement.name == "proxy.fence.all"
    return Plain(lambda w: w.proxies.fence(w, everywhere))


@instruction("prefetch")
def _(statement: s.Instruction, b: Builder) -> Step:
    """Nothing: addresses may be of no element, and what is there is not looked at."""
    return Plain(lambda w: None)
