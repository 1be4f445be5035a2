"""One function under translation: its names, the loops it is in, and the calls around it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from portable.errors import Location
from portable.lang.frontend.source import FunctionSource
from portable.lang.function import Function

LoopKind = Literal["dynamic", "static", "vectors", "elements"]


@dataclass
class Frame:
    """A kernel, or one inlined call of a helper function.

    Attributes
    ----------
    source : FunctionSource
        Its text.
    path : tuple
        Names this frame, the same in every pass: how it was reached.
    env : dict
        What local names stand for.
    outer : mapping
        What other names stand for.
    is_kernel : bool
        Whether ``return`` ends the work-item rather than giving a value.
    called : Location or None
        Where it was called from; None of a kernel.
    active : tuple of Call
        The calls that it is within, from the outermost.
    loops : list of (LoopKind, int)
        The loops around the present statement, each with the depth of run-time branches it is at.
    depth : int
        How many run-time branches and loops are around the present statement.
    calls : int
        Helper functions inlined so far.
    ordinals : dict
        How many variables of each name there are.
    places : dict
        Where nodes stand that were asked for.
    """

    source: FunctionSource
    path: tuple[Any, ...]
    env: dict[str, Any]
    outer: Mapping[str, Any]
    is_kernel: bool
    called: Location | None = None
    active: tuple[Call, ...] = ()
    loops: list[tuple[LoopKind, int]] = field(default_factory=list)
    depth: int = 0
    calls: int = 0
    ordinals: dict[str, int] = field(default_factory=dict)
    places: dict[ast.AST, Location] = field(default_factory=dict)

    def location(self, node: ast.AST) -> Location:
        """Where a node stands, and how the kernel got there."""
        location = self.places.get(node)
        if location is None:
            location = self.source.location(node, self.called)
            self.places[node] = location  # loops that are repeated come back to it
        return location

    def key(self, name: str) -> tuple[Any, ...]:
        """A key for one more variable of a name, the same in every pass."""
        count = self.ordinals.get(name, 0)
        self.ordinals[name] = count + 1
        return (self.path, name, count)


@dataclass(frozen=True, eq=False)
class Closure:
    """A lambda in a kernel.

    Attributes
    ----------
    node : ast.Lambda
        Its text.
    frame : Frame
        The function that it stands in, whose names it sees as they are when it is called.
    defaults : mapping
        Of its parameters, worked out where it stands.
    """

    node: ast.Lambda
    frame: Frame
    defaults: Mapping[str, Any]

    __name__ = "<lambda>"

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"the lambda of line {self.frame.location(self.node).line}"

    @property
    def signature(self) -> inspect.Signature:
        """What it takes."""
        args, kinds = self.node.args, inspect.Parameter
        plain = [(x.arg, kinds.POSITIONAL_OR_KEYWORD) for x in (*args.posonlyargs, *args.args)]
        named = [(x.arg, kinds.KEYWORD_ONLY) for x in args.kwonlyargs]
        return inspect.Signature(
            [kinds(x, kind, default=self._default(x)) for x, kind in plain + named]
        )

    def _default(self, name: str) -> Any:
        return None if name in self.defaults else inspect.Parameter.empty

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: kernels call it where they are translated."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.label


@dataclass(frozen=True, eq=False)
class Call:
    """A call that is being inlined."""

    function: Function | Closure
    arguments: tuple[Any, ...]
