"""``portable.Tape``: gradients of what launches and operations do one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import prod
from typing import Any, Self

import numpy as np

from portable import recording
from portable.dtypes import dtype
from portable.errors import DataError, LaunchError, UnsupportedError
from portable.gradients.arguments import views_of
from portable.gradients.custom import CustomFunction, own_adjoint
from portable.gradients.elementwise import elementwise
from portable.gradients.kernels import vjp
from portable.gradients.memory_of import Memory, is_real, memory_of
from portable.gradients.operations import OPERATIONS, custom
from portable.gradients.records import Changed, Gradients, KernelRecord, Record, UnseenRecord, Value
from portable.gradients.sums import as_given, as_pairs, nought_for
from portable.lang.arguments.arguments import is_array
from portable.lang.arguments.structs import flattened
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import all_statements
from portable.lang.kernel import Kernel
from portable.lang.launch.packing import owners_of
from portable.namespace import device_of, elsewhere, synchronize
from portable.primitives import copy


class Tape:
    """Records launches of kernels and operations, to differentiate what they compute.

    It sees launches by ``kernel[...](...)``, the functions of `portable.primitives`, `gemm`,
    convolutions, and those of `portable.array` and `portable.linalg` that have a rule. What else of
    Portable's is called has no gradient here and is refused by its name where one would go through
    it. It does not see what other libraries do with their arrays (``numpy.sin(x)``), nor launches
    that were prepared: their results are constants to it.

    Arrays that are written again after they were read are kept as copies. Arrays that share memory
    without being the same view are refused.

    Parameters
    ----------
    check : bool
        Whether to look, by a sample of elements, that nothing that the tape does not see wrote to
        arrays that gradients need, for which it waits for the device. Without it a tape and its
        gradients may be part of what is captured in a graph and replayed.

    Examples
    --------
    >>> with pt.Tape() as tape:  # doctest: +SKIP
    ...     step[n](dt, x, v, out)
    ...     loss = pt.primitives.reduce(out)
    >>> gx, gv = tape.gradient(loss, (x, v))  # doctest: +SKIP
    """

    def __init__(self, *, check: bool = True) -> None:
        self._check = check
        self._records: list[Record] = []
        self._values: dict[Memory, Value] = {}
        self._watch: AbstractContextManager[None] | None = None

    def __enter__(self) -> Self:
        """Begins to take down what this context does."""
        if self._watch is not None:
            raise LaunchError("a tape is entered once at a time")
        self._watch = recording.watching(self)
        self._watch.__enter__()
        return self

    def __exit__(self, *caught: object) -> None:
        """Ends it."""
        assert self._watch is not None
        self._watch.__exit__(None, None, None)
        self._watch = None

    # -- what it records -------------------------------------------------------------------

    def value(self, x: Any, *, view: bool = False) -> Value:
        """An array as it is now; `view`: it may be a view of another one that is known."""
        memory = memory_of(x)
        known = self._values.get(memory)
        if known is None:
            if not view:
                self._refuse_overlap(x, memory)
            known = self._values[memory] = Value(x, memory)
        return known

    def _refuse_overlap(self, x: Any, memory: Memory) -> None:
        for other in self._values.values():
            if memory.overlaps(other.memory) and (is_real(x) or is_real(other.array)):
                raise LaunchError(
                    f"a tape is given an array of shape {memory.shape} that shares memory with one "
                    f"of shape {other.memory.shape} without being the same view: gradients go by "
                    "whole arrays; pass the same view each time, or copy it"
                )

    def _refuse_views(self, value: Value) -> None:
        """Refuses to write to what something else on the tape sees as another view."""
        if value.memory.low == value.memory.high:
            return
        for other in self._values.values():
            if other.memory != value.memory and value.memory.overlaps(other.memory):
                raise LaunchError(
                    f"an array of shape {value.memory.shape} is written of which the tape knows a "
                    f"view of shape {other.memory.shape}: write to a copy"
                )

    def record(self, record: Record) -> None:
        """Adds one that is about to be done, or was, and whose results nothing has read."""
        self._records.append(record)
        if not self._check:
            return
        needed = [x for x in record.kept() if x.sample is None and is_real(x.array)]
        if any(isinstance(x.array, np.ndarray) for x in needed):
            synchronize()
        with recording.unwatched():
            for value in needed:
                value.take_sample()

    def overwrite(self, values: Sequence[Value]) -> None:
        """Keeps what is about to be overwritten, where a gradient will need it."""
        for value in values:
            self._refuse_views(value)
            needed = any(value in record.kept() for record in self._records)
            if self._values.get(value.memory) is not value:
                continue
            fresh = Value(value.array, value.memory)
            if needed:
                with recording.unwatched():
                    value.array = copy(value.array)
            self._values[value.memory] = fresh

    def replayed(
        self, steps: Callable[..., Any], inputs: Sequence[Any], number: int, total: Any
    ) -> list[tuple[Any, Any]]:
        """Arrays that a result of some steps depends on, each with its gradient."""
        arrays = list({id(x): x for x in inputs if is_array(x) and is_real(x)}.values())
        with Tape(check=False) as tape:
            made = steps(*inputs)
        result = made[number] if isinstance(made, tuple) else made
        slopes = tape.gradients_of(result, arrays, total)
        return [(x, g) for x, g in zip(arrays, slopes, strict=True) if g is not None]

    def launched(self, launcher: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> None:
        """A kernel is about to be launched."""
        kernel = launcher.kernel
        ours = str(getattr(kernel, "__module__", "")).startswith("portable.")
        if not isinstance(kernel, Kernel):
            raise UnsupportedError(f"{kernel!r} was read from a package and has no gradient")
        with recording.unwatched():
            reads, writes, values = self._touched(launcher, tuple(args), constants)
        both = {i for i in values if i in reads and i in writes}
        if ours:
            self._unseen([values[i] for i in reads], [values[i] for i in writes])
            return
        adjoint_here = own_adjoint(kernel)
        adjoint: Any = vjp(kernel) if adjoint_here is None else adjoint_here
        record = KernelRecord(
            adjoint, launcher.key, tuple(args), dict(constants), values, both,
            [values[i] for i in sorted(reads)], [values[i] for i in sorted(writes)],
        )  # fmt: skip
        self.record(record)
        self.overwrite(record.writes)

    def _touched(
        self, launcher: Any, args: tuple[Any, ...], constants: Mapping[str, Any]
    ) -> tuple[set[int], set[int], dict[int, Value]]:
        """Which arrays a launch reads and writes, by number, and all of them."""
        leaves = flattened(args)
        arrays = [x for x in leaves if is_array(x)]
        device = elsewhere() or device_of(*arrays)
        views = views_of(device, leaves)
        wanted = launcher.specialised(device, args, views, dict(constants))
        ir = launcher.kernel.translated(wanted, device.capabilities)
        owners = owners_of(wanted.parameters)
        loaded = {x.array for x in all_statements(ir.body) if isinstance(x, s.Load | s.Atomic)} | {
            y for x in all_statements(ir.body) for y in x.touched() if y not in x.written()
        }
        written = ir.written
        pairs = [(owners[i][0], x) for i, x in enumerate(ir.parameters)]
        reads = {i for i, x in pairs if x in loaded}
        writes = {i for i, x in pairs if x in written}
        return reads, writes, {i: self.value(x) for i, x in enumerate(leaves) if is_array(x)}

    def operation(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """An operation is called."""
        if isinstance(function, CustomFunction):
            return custom(self, function, args)
        known = OPERATIONS.get(getattr(function, "__wrapped__", function))
        if known is not None:
            return known(self, function, args, kwargs)
        with recording.unwatched():
            result = function(*args, **kwargs)
        reads = [self.value(x) for x in flattened((*args, *kwargs.values())) if _is_plain(x)]
        written = [x for x in flattened((result,)) if _is_plain(x)]
        name = f"{function.__module__.removesuffix('.' + function.__name__)}.{function.__name__}"
        self._unseen(reads, [self.value(x) for x in written], name)
        return result

    def applied(self, function: Any, name: str, operands: Sequence[Any], result: Any) -> None:
        """A function of numbers was applied to each element."""
        elementwise(self, function, name, operands, result)

    def unseen(self, reads: Sequence[Any], writes: Sequence[Any]) -> None:
        """Something made arrays of others."""
        given = [self.value(x) for x in reads if _is_plain(x)]
        self._unseen(given, [self.value(x) for x in writes if _is_plain(x)])

    def _unseen(self, reads: list[Value], writes: list[Value], name: str = "") -> None:
        self.record(UnseenRecord(name or _called(), reads, writes))
        self.overwrite(writes)

    # -- gradients -------------------------------------------------------------------------

    def gradient(self, loss: Any, sources: Any, *, seed: Any = None) -> Any:
        """The gradient of a loss by arrays, as they were when the tape began.

        Parameters
        ----------
        loss : array
            What something on the tape wrote; of one element unless there is a `seed`.
        sources : array, or tuple or list of arrays
            What the loss depends on.
        seed : array, optional
            Of the shape of `loss`: the gradient of something by it.

        Returns
        -------
        array, or tuple of arrays
            Of the shape, dtype and device of each source. Of complex ones the derivative by the
            real part plus ``1j`` times that by the imaginary one.

        Raises
        ------
        DataError
            If nothing on the tape wrote the loss, or it does not depend on a source.
        KernelError, UnsupportedError
            With the line or the name of what has no gradient.
        """
        several = isinstance(sources, tuple | list)
        wanted = list(sources) if several else [sources]
        slopes = self.gradients_of(loss, wanted, seed)
        for number, gradient in enumerate(slopes):
            if gradient is None:
                raise DataError(
                    f"the loss does not depend on source {number}, as far as the tape saw: what "
                    "other libraries did with it is not on the tape"
                )
        return tuple(slopes) if several else slopes[0]

    def gradients_of(self, loss: Any, sources: Sequence[Any], seed: Any) -> list[Any]:
        """As `gradient`, with None for sources that the loss does not depend on."""
        if self._watch is not None:
            raise LaunchError("ask for gradients after the tape: outside of its with statement")
        memories = [memory_of(x) for x in sources]
        gradients = Gradients(self._dependent(set(memories)))
        end = self._values.get(memory_of(loss)) if is_array(loss) else None
        if end is None or not any(x.memory == end.memory for r in self._records for x in r.writes):
            raise DataError(
                "the loss is no array that something on the tape wrote: make it by a kernel, a "
                "primitive or a function of pt.xp(); NumPy's own functions are not seen"
            )
        gradients.found[end.memory] = _seed(loss, seed)
        if self._check:
            synchronize()
        changed, checked = Changed(), set[int]()
        for record in reversed(self._records):
            if any(x.memory in gradients.found for x in record.writes):
                for value in record.kept() if self._check else ():
                    if id(value) not in checked:
                        checked.add(id(value))
                        value.check(changed)
                record.back(gradients)
        changed.tell()
        slopes = [gradients.found.get(memory) for memory in memories]
        return [None if g is None else as_given(g, x) for g, x in zip(slopes, sources, strict=True)]

    def _dependent(self, memories: set[Memory]) -> set[Memory]:
        """The arrays that depend on some, these among them."""
        result = set(memories)
        for record in self._records:
            if any(x.memory in result for x in record.reads):
                result |= {x.memory for x in record.writes if is_real(x.array)}
        return result


def _is_plain(x: Any) -> bool:
    return is_array(x) and hasattr(x, "dtype")


def _seed(loss: Any, seed: Any) -> Any:
    """The gradient to begin with."""
    size = prod(loss.shape)
    if seed is None:
        if size != 1:
            raise DataError(
                f"the loss has {size} elements: give seed, an array of its shape, or reduce it"
            )
        if dtype(loss.dtype).is_complex:
            raise DataError("the loss is complex: give a seed, or take its real part")
        return nought_for(loss, 1.0)
    if tuple(seed.shape) != tuple(loss.shape):
        raise DataError(f"the seed has the shape {seed.shape}, the loss {loss.shape}")
    total = nought_for(loss)
    return copy(as_pairs(seed), total)


def _called() -> str:
    """What of Portable's the user called."""
    frame, name = sys._getframe(1), "an operation"
    while str(frame.f_globals.get("__name__", "")).startswith("portable"):
        module = frame.f_globals["__name__"]
        name = f"{module}.{frame.f_code.co_name}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return name
