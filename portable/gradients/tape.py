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
from portable.gradients.memory_of import Memory, is_real
from portable.gradients.operations import OPERATIONS, custom
from portable.gradients.recorders import is_plain, unknown
from portable.gradients.records import (
    Changed,
    Gradients,
    KernelRecord,
    Record,
    UnseenRecord,
    take_sample,
)
from portable.gradients.rows import rows_touched
from portable.gradients.sums import as_given, as_pairs, nought_for
from portable.gradients.versions import Value, Versions
from portable.lang.arguments.arguments import is_array
from portable.lang.arguments.structs import flattened
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

    What is written again after it was read is kept as a copy: rows of an array where the rows are
    told by numbers (``x[t + 1, i] = x[t, i]``, or views ``x[t]``), else arrays. Arrays that share
    memory are refused unless they lie, each in one piece, in one of them. What a tape inside of
    another one records has no gradient on the outer one.

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
        self._versions = Versions()
        self._watch: AbstractContextManager[None] | None = None
        self._outer: recording.Recorder | None = None

    def __enter__(self) -> Self:
        """Begins to take down what this context does."""
        if self._watch is not None:
            raise LaunchError("a tape is entered once at a time")
        self._outer = recording.current()
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
        """An array as it is now; `view`: one whose gradient a record hands on to another one."""
        return self._versions.value(x, view=view)

    def is_part(self, x: Any, whole: Any) -> bool:
        """Whether an array is a part of another one, whose gradient needs no record."""
        return self._versions.is_part(x, whole)

    def record(self, record: Record) -> None:
        """Adds one that is about to be done, or was, and whose results nothing has read."""
        self._records.append(record)
        self.need(record.kept())
        if self._outer is not None:
            writes = [x.live for x in record.writes if not self._versions.is_view(x)]
            reads = [x.live for x in record.reads]
            self._outer.unseen(reads, writes, "what a tape inside of this one records")

    def need(self, values: Sequence[Value]) -> None:
        """Remembers what a gradient will need as it is now."""
        for value in values:
            value.needed = True
        if not self._check:
            return
        needed = [x for x in values if x.sample is None]
        if any(isinstance(x.array, np.ndarray) for x in needed):
            synchronize()
        with recording.unwatched():
            for value in needed:
                take_sample(value)

    def overwrite(self, values: Sequence[Value]) -> range:
        """Keeps what is about to be overwritten, where a gradient will need it."""
        return self._versions.overwrite(values)

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
            touched = self._touched(launcher, tuple(args), constants)
        reads, writes = ([y for x in part.values() for y in x] for part in touched[:2])
        if ours:
            self._unseen(reads, writes)
            return
        adjoint_here = own_adjoint(kernel)
        adjoint: Any = vjp(kernel) if adjoint_here is None else adjoint_here
        both = set(touched[0]) & set(touched[1])
        record = KernelRecord(
            adjoint, launcher.key, tuple(args), dict(constants), touched[2], both, reads, writes
        )
        self.record(record)
        record.wrote = self.overwrite(writes)

    def _touched(
        self, launcher: Any, args: tuple[Any, ...], constants: Mapping[str, Any]
    ) -> tuple[dict[int, list[Value]], dict[int, list[Value]], dict[int, Value]]:
        """What of its arrays a launch reads and writes, by number, and the whole of all."""
        leaves = flattened(args)
        arrays = [x for x in leaves if is_array(x)]
        device = elsewhere() or device_of(*arrays)
        views = views_of(device, leaves)
        wanted = launcher.specialised(device, args, views, dict(constants))
        ir = launcher.kernel.translated(wanted, device.capabilities)
        given = [leaves[number] for number, _ in owners_of(wanted.parameters)]
        values = {i: self.value(x) for i, x in enumerate(leaves) if is_array(x)}
        pairs = list(zip(owners_of(wanted.parameters), ir.parameters, strict=True))
        reads, writes = (
            {i: self._versions.rows(values[i], rows[x]) for (i, _), x in pairs if x in rows}
            for rows in rows_touched(ir, given)
        )
        return reads, writes, values

    def operation(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """An operation is called."""
        if isinstance(function, CustomFunction):
            return custom(self, function, args)
        known = OPERATIONS.get(getattr(function, "__wrapped__", function))
        if known is not None:
            return known(self, function, args, kwargs)
        return unknown(self, function, args, kwargs)

    def applied(self, function: Any, name: str, operands: Sequence[Any], result: Any) -> None:
        """A function of numbers was applied to each element."""
        elementwise(self, function, name, operands, result)

    def unseen(self, reads: Sequence[Any], writes: Sequence[Any], name: str = "") -> None:
        """Something made arrays of others."""
        given = [self._versions.glimpse(x) for x in reads if is_plain(x)]
        self._unseen(given, [self.value(x) for x in writes if is_plain(x)], name)

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
        wanted = [self.value(x) for x in sources]
        end = self.value(loss) if is_array(loss) else None
        written = [x.memory for record in self._records for x in record.writes]
        if end is None or not any(x.overlaps(end.memory) for x in written):
            raise DataError(
                "the loss is no array that something on the tape wrote: make it by a kernel, a "
                "primitive or a function of pt.xp(); NumPy's own functions, which are those of "
                "pt.xp('cpu'), are not seen: pt.xp('cpu:native-arrays') has ones that are"
            )
        gradients = Gradients(self._dependent(wanted), self._versions)
        gradients.begin(end, _seed(loss, seed))
        if self._check:
            synchronize()
        changed, checked = Changed(), set[int]()
        for record in reversed(self._records):
            if any(gradients.held(x.memory) is not None for x in record.writes):
                for value in record.kept() if self._check else ():
                    if id(value) not in checked:
                        checked.add(id(value))
                        with recording.unwatched():
                            changed.check(value)
                record.back(gradients)
        changed.tell()
        self._versions.forget()
        slopes = [gradients.held(x.memory) for x in wanted]
        return [None if g is None else as_given(g, x) for g, x in zip(slopes, sources, strict=True)]

    def _dependent(self, values: Sequence[Value]) -> set[Memory]:
        """The arrays that depend on some, these among them, and what shares memory with them."""
        overlapping = self._versions.overlapping
        result = {y for x in values for y in overlapping(x.memory)}
        for record in self._records:
            if record.depends_on(result):
                written = [x.memory for x in record.writes if is_real(x.live)]
                result.update(y for x in written if x not in result for y in overlapping(x))
        return result


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
