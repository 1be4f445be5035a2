"""Measures in a process of its own, so that a cell whose driver dies ends no other."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from threading import Condition, Thread
from time import monotonic
from typing import Any, Final, Self

from portable import registry
from portable.backend import Device
from portable.errors import PortableError
from portable.registry import use
from portable.system.isolation import Isolated, usable_cores
from portable_bench.environment import libraries
from portable_bench.harness import Harness, Pace, failed, on_device
from portable_bench.operation import Case, Operation
from portable_bench.plan import Planned
from portable_bench.results import Cell

# The environment that libraries are started in: without variables that hold them back.

_HOLDING: Final = frozenset(
    {
        "OPENBLAS_CORETYPE",
        "OPENBLAS_L2_SIZE",
        "BLIS_ARCH_TYPE",
        "BLIS_MODEL_TYPE",
        "NPY_DISABLE_CPU_FEATURES",
        "ATEN_CPU_CAPABILITY",
        "ONEDNN_MAX_CPU_ISA",
        "DNNL_MAX_CPU_ISA",
        "CUDA_LAUNCH_BLOCKING",
        "CUBLAS_WORKSPACE_CONFIG",
        "NVIDIA_TF32_OVERRIDE",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "CUPY_TF32",
    }
)
"""Older kernels, smaller caches, waiting after each launch; and TF32, which is another problem."""

_HOLDING_PREFIXES: Final = ("MKL_",)
_HARMLESS: Final = frozenset({"MKL_INTERFACE_LAYER", "MKL_THREADING_LAYER"})
"""How parts of a library are put together; wrong parts end the process."""

_LIMITS: Final = frozenset(
    {
        "OMP_NUM_THREADS",
        "OMP_THREAD_LIMIT",
        "OPENBLAS_NUM_THREADS",
        "OPENBLAS_DEFAULT_NUM_THREADS",
        "GOTO_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    }
)
"""Numbers of threads, which hold a library back where ours are given more cores."""


def cores_given(devices: Sequence[Device]) -> int:
    """The cores that ours work on."""
    capabilities = (d.capabilities for d in devices)
    return max(
        (can.compute_units for can in capabilities if can.kind == "cpu"),
        default=usable_cores(),
    )


def holding(environment: Mapping[str, str], cores: int) -> dict[str, str]:
    """The variables that hold a library back beside ours on so many cores, with their values."""
    return {name: value for name, value in environment.items() if _holds(name, value, cores)}


def _holds(name: str, value: str, cores: int) -> bool:
    if name in _LIMITS:
        first = value.partition(",")[0].strip()  # the others are for threads within threads
        return not (first.isdecimal() and int(first) >= cores)
    if name == "MKL_THREADING_LAYER":
        return value.upper() == "SEQUENTIAL"
    return name in _HOLDING or (name.startswith(_HOLDING_PREFIXES) and name not in _HARMLESS)


@contextmanager
def unheld(cores: int) -> Iterator[dict[str, str]]:
    """A block in which new processes do without such variables; gives those taken away.

    Libraries read them when they are loaded, so that this process goes on as it was.
    """
    taken = holding(os.environ, cores)
    for name in taken:
        del os.environ[name]
    try:
        yield taken
    finally:
        os.environ.update(taken)


# Compiles ahead what a run will need, on all cores, before anything is timed.

_MOMENT: Final = 0.2


def distinct(planned: Sequence[Planned]) -> list[Planned]:
    """The first case of each operation, type and device: what others compile is mostly the same."""
    programs: dict[object, Planned] = {}
    for operation, case in planned:
        programs.setdefault((operation, case.dtype, case.device), (operation, case))
    return list(programs.values())


def shares(planned: Sequence[Planned], helpers: int) -> tuple[list[Planned], list[list[Planned]]]:
    """What the process that measures compiles, and what helpers compile for it, in order.

    Some compilers work for one thread of a process at a time. A helper's programs are found on
    disk by all, where the device keeps them. So the process that measures takes first what no
    helper can do, then goes through the rest from the end and finds more and more of it done.
    """
    kept = [p for p in planned if p[1].device.keeps_programs]
    kept_here = [p for p in planned if not p[1].device.keeps_programs]
    # Types of one operation on one device have programs in common.
    groups = list(dict.fromkeys((operation, case.device) for operation, case in kept))
    numbers = {group: i for i, group in enumerate(groups)}
    shares_of: list[list[Planned]] = [[] for _ in range(helpers)]
    for operation, case in kept if helpers else ():
        shares_of[numbers[operation, case.device] % helpers].append((operation, case))
    return [*kept_here, *reversed(kept)], shares_of


class Compiling:
    """Runs each case once, several devices beside each other.

    Whatever fails will fail again when its turn comes, and is told then.

    Parameters
    ----------
    planned : sequence
        Operations with the cases to measure them in.
    """

    def __init__(self, planned: Sequence[Planned]) -> None:
        self._waiting = list(planned)
        self._total = len(planned)
        self._busy: set[Device] = set()
        self._done = 0
        self._changed = Condition()
        # What compilers remark is told, if at all, when the case's turn comes.
        self._quiet = ExitStack()
        self._quiet.enter_context(warnings.catch_warnings(action="ignore"))
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(self._at_once())]
        for thread in self._threads:
            thread.start()

    def _at_once(self) -> int:
        return min(len({case.device for _, case in self._waiting}), usable_cores())

    def wait(self, seconds: float = _MOMENT) -> tuple[int, int]:
        """How many are done, after the next one or some time at most, and how many there are."""
        with self._changed:
            before = self._done
            self._changed.wait_for(lambda: self._done > before or before == self._total, seconds)
            return self._done, self._total

    def stop(self, patience: float | None = None) -> bool:
        """Begin no more, and wait for those under way, some seconds at most; whether they ended."""
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()
        latest = None if patience is None else monotonic() + patience
        for thread in self._threads:
            thread.join(None if latest is None else max(0.0, latest - monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            return False
        self._quiet.close()
        return True

    def _work(self) -> None:
        while (planned := self._next()) is not None:
            operation, case = planned
            with use(case.device), suppress(Exception):
                _run_once(operation, case)
            with self._changed:
                self._busy.remove(case.device)
                self._done += 1
                self._changed.notify_all()

    def _next(self) -> Planned | None:
        """The first whose device is free: not every library lets several threads use a queue."""
        with self._changed:
            while self._waiting:
                for planned in self._waiting:
                    if planned[1].device not in self._busy:
                        self._waiting.remove(planned)
                        self._busy.add(planned[1].device)
                        return planned
                self._changed.wait()
            return None


def _run_once(operation: Operation, case: Case) -> None:
    inputs = operation.inputs(case)
    for contender in operation.contenders(case):
        if not contender.peer:
            given = on_device(contender, inputs)
            contender.prepare(*given)()
    case.device.synchronize()


# -- worker ----------------------------------------------------------------------------------------

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
        self._unheld = unheld(cores or usable_cores())
        self._server = self._process(patience)

    @property
    def libraries(self) -> list[dict[str, Any]]:
        """What was loaded over there, as `portable_bench.environment.Library` has it."""
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
        ours, others = shares(distinct(planned), min(usable_cores() - 1, _HELPERS))
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
