"""Timelines: each launch and copy of a block with the device's times, as a table and as a trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import Any, Final, Self

from rich.table import Table

from portable import registry
from portable.errors import LaunchError
from portable.namespace import synchronize
from portable.profiling import timeline
from portable.profiling.timeline import Entry, Span
from portable.system.console import html, literal, rendered
from portable.system.files import write_whole

_MICRO: Final = 1e6


class profile:  # noqa: N801  (read as a verb: `with portable.profile("trace.json"):`)
    """Record what every device does in a block: each launch and copy, its times, name and size.

    The host's rows say what was compiled meanwhile, or taken from the cache of compiled programs:
    "translate f" makes the device's language of a kernel, "build f" a program of that.

    Times are the device's own: OpenCL's and the processor's of each command; on CUDA, ROCm and SYCL
    from mark to mark around it, which on an idle device includes the way of a launch there (some
    microseconds); the simulator's are the host's. What libraries enqueue by themselves (CuPy's or
    dpnp's functions) is not seen; `annotate` a block of them. A launch costs some microseconds more
    while a profile is on, and nothing afterwards.

    Parameters
    ----------
    path : str or path-like, optional
        Where to write a trace at the end, in the format of Chrome's ``about:tracing``, which
        https://ui.perfetto.dev and Speedscope also show.

    Attributes
    ----------
    spans : tuple of Span
        After the block: what was done, in the order of the starts.

    Raises
    ------
    LaunchError
        On entering, if a profile is on already.
    FileNotFoundError
        On entering, if there is no folder for the trace.

    Examples
    --------
    >>> with pt.profile("trace.json") as profile:  # doctest: +SKIP
    ...     kernel[n](x)
    >>> print(profile)  # doctest: +SKIP
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.spans: tuple[Span, ...] = ()

    def __enter__(self) -> Self:
        if self.path is not None and not self.path.absolute().parent.is_dir():
            raise FileNotFoundError(f"no folder {self.path.parent} for the trace; make it first")
        synchronize()
        try:
            self._recording = timeline.begin()
        except RuntimeError:
            raise LaunchError(
                "a profile is on already, and devices have one record of times; end its block first"
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        timeline.end()
        try:
            synchronize()
            self.spans = self._recording.spans()
        finally:
            self._recording.close()
        if self.path is not None:
            write_whole(self.path, (json.dumps(self.trace(), indent=1) + "\n").encode())

    # -- as a table -------------------------------------------------------------------------

    def table(self) -> Table:
        """What took how long: a row per device, kernel or kind of copy, the longest first."""
        table = Table(title="Profile")
        for heading in ("device", "what", "size", "times", "total", "mean", "share"):
            left = heading in ("device", "what", "size")
            table.add_column(heading, overflow="fold", justify="left" if left else "right")
        groups: dict[tuple[str, str, str], list[float]] = {}
        for span in self.spans:
            groups.setdefault((span.device, span.entry.name, _size(span.entry)), []).append(
                span.seconds
            )
        totals: dict[str, float] = {}
        for (device, *_), seconds in groups.items():
            totals[device] = totals.get(device, 0.0) + sum(seconds)
        for key, seconds in sorted(groups.items(), key=lambda item: -sum(item[1])):
            total = sum(seconds)
            share = total / totals[key[0]] if totals[key[0]] else 0.0
            numbers = (
                f"{len(seconds)}", _time(total), _time(total / len(seconds)), f"{share:.0%}"
            )  # fmt: skip
            table.add_row(*map(literal, (*key, *numbers)))
        return table

    def __str__(self) -> str:
        return rendered(self.table())

    def __repr__(self) -> str:
        return f"<portable profile of {len(self.spans)} launches and copies>"

    def __rich__(self) -> Table:
        return self.table()

    def _repr_html_(self) -> str:
        return html(self.table())

    # -- as a trace -------------------------------------------------------------------------

    def trace(self) -> dict[str, Any]:
        """The spans in the Trace Event Format: a process per device, a thread per queue."""
        devices = sorted({span.device for span in self.spans} | {timeline.HOST})
        numbers = {device: i for i, device in enumerate(devices, start=1)}
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": i, "args": {"name": device}}
            for device, i in numbers.items()
        ]
        events += [_event(span, numbers[span.device]) for span in self.spans]
        return {"traceEvents": events, "displayTimeUnit": "ms"}


def _event(span: Span, process: int) -> dict[str, Any]:
    """A complete event; times are in microseconds."""
    facts: dict[str, Any] = {"enqueued_us": round(_MICRO * span.enqueued, 3)}
    if span.entry.kind == "launch":
        facts |= {"groups": span.entry.groups, "workgroup": span.entry.workgroup}
    elif span.entry.nbytes:
        facts |= {"bytes": span.entry.nbytes}
    return {
        "ph": "X",
        "name": span.entry.name,
        "cat": span.entry.kind,
        "pid": process,
        "tid": span.queue,
        "ts": round(_MICRO * span.start, 3),
        "dur": round(_MICRO * span.seconds, 3),
        "args": facts,
    }


def _size(entry: Entry) -> str:
    """The work-items of a launch, the bytes of a copy."""
    if entry.kind == "launch":
        items = (g * w for g, w in zip(entry.groups, entry.workgroup, strict=True))
        shape = " x ".join(str(n) for n in _trimmed(items))
        return f"{shape} in {prod(entry.groups)} workgroups"
    return f"{entry.nbytes:,} bytes" if entry.nbytes else ""


def _trimmed(sizes: Iterator[int]) -> list[int]:
    """Without the ones at the end."""
    extents = list(sizes)
    while len(extents) > 1 and extents[-1] == 1:
        extents.pop()
    return extents


def _time(seconds: float) -> str:
    if abs(seconds) < 1e-3:
        return f"{1e6 * seconds:.1f} us"
    return f"{1e3 * seconds:.3f} ms" if abs(seconds) < 1 else f"{seconds:.3f} s"


@contextmanager
def annotate(name: str) -> Iterator[None]:
    """Name a block of a program, for the timeline of `profile` and for Nsight.

    Its times are the host's. On CUDA and ROCm it becomes a range of NVTX or rocTX, where CuPy has
    it, whether or not a profile is on.

    Parameters
    ----------
    name : str
        What to call it.

    Examples
    --------
    >>> with pt.annotate("assembly"):  # doctest: +SKIP
    ...     kernel[n](x)
    """
    with timeline.on_host(name, "annotation"), ExitStack() as ranges:
        for device in registry.at_work():
            ranges.enter_context(device.annotation(name))
        yield
