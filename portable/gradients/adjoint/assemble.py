"""The adjoint of a kernel, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from portable.dtypes import DType, int32
from portable.gradients.adjoint.activity import Activity
from portable.gradients.adjoint.exits import without_jumps
from portable.gradients.adjoint.flatten import flat
from portable.gradients.adjoint.logs import with_logs
from portable.gradients.adjoint.memory import Memory
from portable.gradients.adjoint.names import Names, adjoint_type, refuse
from portable.gradients.adjoint.reexecution import refuse_stale
from portable.gradients.adjoint.scopes import kept_in_variables
from portable.gradients.adjoint.stack import Stack
from portable.gradients.adjoint.sweeps import Level, Sweeps
from portable.gradients.adjoint.unused import needed
from portable.lang.checks import check
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.make import cast
from portable.lang.ir.types import Array
from portable.lang.ir.walk import all_statements

__all__ = ["Adjoint", "Gradient", "adjoint_of"]


@dataclass(frozen=True, slots=True)
class Gradient:
    """An array of gradients.

    Attributes
    ----------
    parameter : str
        The name of the kernel's parameter whose gradient it is.
    array : Array
        Of as many dimensions as an array parameter; one more of a complex one, with real numbers;
        of 0 or 1 dimensions of a number.
    """

    parameter: str
    array: Array


@dataclass(frozen=True, slots=True)
class Adjoint:
    """The adjoint of a kernel.

    Attributes
    ----------
    kernel : Kernel
        Its parameters are the kernel's, then the gradients', then the arrays of `kept`.
    measure : Kernel or None
        Finds how much is kept: its parameters are the same without `kept`, and at the end an array
        of int32, the greatest number for a work-item of each type in turn. None where none is.
    kept : tuple of DType
        The types of what is kept.
    """

    kernel: Kernel
    measure: Kernel | None
    kept: tuple[DType, ...]


def adjoint_of(kernel: Kernel, gradients: Sequence[Gradient], dims: int = 1) -> Adjoint:
    """The adjoint of a kernel that the front end gave.

    Parameters
    ----------
    kernel : Kernel
    gradients : sequence of Gradient
        In the order of its parameters.
    dims : int
        How many dimensions the ndrange has.

    Raises
    ------
    KernelError
        With the line of what has no gradient.
    """
    return _Assembly(kernel, gradients, dims).made()


def _refuse_order(body: s.Block) -> None:
    """Refuses what atomic operations return: run again, they return it in another order."""
    for x in all_statements(body):
        if isinstance(x, s.Atomic) and x.var is not None:
            refuse(
                f"through what kl.atomic_{x.op} returns, which depends on the order of work-items",
                x,
                "work out places that do not depend on it, and keep them in an array",
            )


class _Assembly:
    def __init__(self, kernel: Kernel, gradients: Sequence[Gradient], dims: int) -> None:
        self.primal: Final = kernel
        self.gradients: Final = gradients
        self.names: Final = Names(kernel)
        program = flat(without_jumps(kernel, self.names), self.names)
        self.stack: Final = Stack(program, self.names, dims)
        self.flat, logs = with_logs(program, self.names, self.stack)
        arrays = {x.parameter: x.array for x in gradients}
        self.activity: Final = Activity(self.flat, set(arrays))
        self.memory: Final = Memory(self.flat, arrays, self.activity, self.names, dims)
        self.sweeps: Final = Sweeps(
            self.flat, self.names, self.activity, self.memory, self.stack, logs
        )

    def made(self) -> Adjoint:
        loc = self.flat.loc
        both, level = self.sweeps.whole()
        body = (
            *self.memory.cleared(loc),
            *self.stack.empty(loc),
            *self.sweeps.zeros(),
            *both,
            *self._numbers(level),
        )
        into = [x.array for x in self.gradients]
        live = needed(body, into)
        _refuse_order(live)
        touched = {y for x in all_statements(live) for y in x.touched()}
        self.stack.arrays = [x for x in self.stack.arrays if x in touched]
        kernel = self._kernel(f"{self.primal.name}_adjoint", live, tuple(self.stack.arrays))
        refuse_stale(self.flat, kernel, self.sweeps.again)
        kernel = kept_in_variables(kernel, self.names)
        check(kernel)
        measure = self._measure() if self.stack.arrays else None
        return Adjoint(kernel, measure, tuple(x.dtype for x in self.stack.arrays))

    def _measure(self) -> Kernel:
        counts = Array(
            self.names.fresh("counts"), int32, "global", 1, strides=("unit",), restrict=True
        )
        loc = self.flat.loc
        walked = self.sweeps.measured()
        body = (*self.stack.begun(loc), *walked, *self.stack.reported(counts, loc))
        live = needed(body, [counts])
        _refuse_order(live)
        made = self._kernel(f"{self.primal.name}_kept", live, (counts,))
        made = kept_in_variables(made, self.names)
        check(made)
        return made

    def _kernel(self, name: str, body: s.Block, more: tuple[Array, ...]) -> Kernel:
        given = tuple(x.array for x in self.gradients)
        cells = (*self.flat.variables, *self.sweeps.cells, *self.stack.cells)
        used = {v.name for x in all_statements(body) for v in x.sets()}
        touched = {y for x in all_statements(body) for y in x.touched()}
        return replace(
            self.flat,
            name=name,
            parameters=(*self.flat.parameters, *given, *more),
            variables=tuple(dict.fromkeys(x for x in cells if x.name in used)),
            arrays=tuple(x for x in (*self.flat.arrays, *self.memory.arrays) if x in touched),
            body=body,
        )

    def _numbers(self, level: Level) -> s.Block:
        """Adds the adjoints of numbers that all work-items are given to their gradients."""
        out: list[s.Statement] = []
        parameters = {x.name: x for x in self.flat.parameters if isinstance(x, e.Variable)}
        for gradient in self.gradients:
            var = parameters.get(gradient.parameter)
            if var is None:
                continue
            if adjoint_type(var.type) is not var.type:
                refuse(f"of {var.name}, a number in half precision", self.flat.loc, "pass a float")
            adjoint, before = level.adjoints.taken(var, self.flat.loc)
            if adjoint is None:
                continue
            value = cast(adjoint, gradient.array.dtype.register)
            index = (e.Const(0, self.flat.index_type),) * gradient.array.ndim
            out += before
            out.append(
                s.Atomic(
                    None,
                    "add",
                    gradient.array,
                    index,
                    value,
                    None,
                    "relaxed",
                    "device",
                    self.flat.loc,
                )
            )
        return tuple(out)
