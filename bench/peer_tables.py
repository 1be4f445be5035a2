"""What libraries ran with, as people read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from portable_bench.libraries import Library
from portable_bench.tables import plain


def peer_tables(environment: Mapping[str, Any]) -> list[Table]:
    """A row per library; no table where none was loaded, or by a release that did not look."""
    libraries = [Library(**entry) for entry in environment.get("peers", {}).get("libraries", ())]
    if not libraries:
        return []
    table = Table(title="libraries beside ours")
    for heading in ("library", "version", "kernels", "threads", "settings"):
        table.add_column(heading, justify="right" if heading == "threads" else "left")
    for library in libraries:
        threads = "" if library.threads is None else str(library.threads)
        settings = "; ".join(f"{name}: {value}" for name, value in library.settings.items())
        texts = (str(library), library.version, library.kernels, threads, settings)
        table.add_row(*map(plain, texts))
    return [table]


def remarks(environment: Mapping[str, Any]) -> Iterator[str]:
    """What was done so that nothing holds libraries back, and what does all the same."""
    peers = environment.get("peers", {})
    taken = peers.get("taken_away", {})
    if taken:
        listed = ", ".join(f"{name}={value}" for name, value in taken.items())
        yield f"Libraries were started without {listed}, which would have held them back."
    for note in peers.get("held_back", ()):
        yield f"Held back: {note}."
