"""Measures in a process of its own, so that a cell whose driver dies ends no other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final, Self

from portable import registry
from portable.backend import Device
from portable.errors import PortableError
from portable.system.isolation import Isolated
from portable_bench.compiling import Compiling, distinct, shares
from portable_bench.harness import Harness, Pace, failed
from portable_bench.libraries import libraries
from portable_bench.operation import Case, Operation
from portable_bench.plan import Planned
from portable_bench.results import Cell
from portable_bench.unheld import unheld

_START: Final = 60.0
"""Seconds that a helper may take to begin."""
_GRACE: Final = 3.0
"""Seconds that programs under way may take when it is time to measure."""
_HELPERS: Final = 3
"""Processes at most that compile beside the one that measures."""
_Named = tuple[Operation, str, Any, tuple[int, ...]]
"""A planned case with its device's name, since a device belongs to its process."""


class Worker:
    """A `Harness` in a process of its own, which is replaced when it is lost.

    The cell that was measured then says how. A context manager, which starts the process and ends
    it.

    Parameters
    ----------
    pace : Pace
        How much time to spend.
    patience : float
        Seconds after which a cell is given up.
    find : callable
        The device of a name, over there.
    cores : int, optional
        Those that ours are given, so that libraries may have as many.

    Attributes
    ----------
    taken_away : dict of str to str
        Variables that would hold libraries back, which the process was started without.
    """

    def __init__(
        self,
        pace: Pace,
        patience: float = 600.0,
        find: Callable[[str], Device] = registry.device,
        cores: int | None = None,
    ) -> None:
        self.pace = pace
        self.taken_away: dict[str, str] = {}
        self._find = find
        self._libraries: dict[object, dict[str, Any]] = {}
        self._unheld = unheld(cores or os.cpu_count() or 1)
        self._server = self._process(patience)

    @property
    def libraries(self) -> list[dict[str, Any]]:
        """What was loaded over there, as `portable_bench.libraries.Library` has it."""
        return list(self._libraries.values())

    def _process(self, patience: float) -> Isolated[Any]:
        return Isolated(partial(_Server, self._find), patience=patience, what="measuring")

    def __enter__(self) -> Self:
        self.taken_away = self._unheld.__enter__()
        try:
            self._server.__enter__()
        except BaseException:
            self._unheld.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        self._unheld.__exit__(None, None, None)

    def measure(self, operation: Operation, case: Case, *, ladder: bool = False) -> Cell:
        """The cell of a case; whatever fails is noted in it."""
        try:
            named = _named(operation, case)
            cell, spoiled, loaded = self._server("measure", named, self.pace, ladder)
        except PortableError as error:
            return failed(operation, case, str(error))
        self._libraries |= {(x["name"], x["part_of"], tuple(x["settings"])): x for x in loaded}
        if spoiled:
            self._server.stop()
        measured: Cell = cell
        return measured

    def compile(
        self, planned: Sequence[Planned], tick: Callable[[int, int], None], late: Callable[[], bool]
    ) -> None:
        """Compile ahead over there, on all cores, until all is done or it is `late`.

        Parameters
        ----------
        planned : sequence
            Operations with the cases to measure them in.
        tick : callable
            Given how many programs are done and how many there are.
        late : callable
            Whether it is time to stop.
        """
        ours, others = shares(distinct(planned), min((os.cpu_count() or 1) - 1, _HELPERS))
        with ExitStack() as helpers, suppress(PortableError):
            # Who is lost over a program is lost again when its turn comes, and it is told then.
            done, total = self._server("compile", [_named(*p) for p in ours])
            for share in filter(None, others):
                with suppress(PortableError):
                    helper = helpers.enter_context(self._process(_START))
                    helper("compile", [_named(*p) for p in share])
            while done < total and not late():
                done, total = self._server("compiled")
                tick(done, total)
            if not self._server("stop_compiling", _GRACE):
                # A program that takes long is compiled, or given up, when its turn comes.
                self._server.stop()


def _named(operation: Operation, case: Case) -> _Named:
    return operation, case.device.name, case.dtype, case.size


class _Server:
    """What the process does, by the names of methods."""

    def __init__(self, find: Callable[[str], Device]) -> None:
        self._find = find
        self._harness = Harness(Pace())
        self._compiling: Compiling | None = None

    def __call__(self, method: str, *arguments: Any) -> Any:
        return getattr(self, method)(*arguments)

    def _planned(self, named: _Named) -> Planned:
        operation, device, dtype, size = named
        return operation, Case(self._find(device), dtype, size)

    def measure(
        self, named: _Named, pace: Pace, ladder: bool
    ) -> tuple[Cell, bool, list[dict[str, Any]]]:
        """The cell, whether this process can measure no more, and the libraries it has loaded."""
        self._harness.pace = pace
        cell = self._harness.measure(*self._planned(named), ladder=ladder)
        return cell, self._harness.spoiled, libraries()

    def compile(self, named: Sequence[_Named]) -> tuple[int, int]:
        """Begin; how many are done after a moment, and how many there are."""
        self._compiling = Compiling([self._planned(n) for n in named])
        return self._compiling.wait()

    def compiled(self) -> tuple[int, int]:
        """The same after another moment."""
        assert self._compiling
        return self._compiling.wait()

    def stop_compiling(self, patience: float) -> bool:
        """Whether those under way were done after so many seconds."""
        assert self._compiling
        return self._compiling.stop(patience)
