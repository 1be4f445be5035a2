"""The progress bar of a training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from portable.nn.history import History

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(epochs: int, wanted: bool | None) -> Iterator[Callable[[History], None]]:
    """Gives a function to call after each epoch; it does nothing where no bar is wanted."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda history: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("epoch"),
        MofNCompleteColumn(),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=epochs)
        yield lambda history: bar.update(
            task, completed=history.epochs, description=_losses(history)
        )


def _losses(history: History) -> str:
    shown = f"loss {history.train[-1]:.4g}"
    if history.accuracy:
        shown += f", accuracy {history.accuracy[-1]:.1%}"
    if history.validation:
        shown += f", validation {history.validation[-1]:.4g}"
    if history.validation_accuracy:
        shown += f", accuracy {history.validation_accuracy[-1]:.1%}"
    return shown
