"""Results as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.markup import escape
from rich.table import Table

from portable_bench.results import Cell, Outcome, time_ratio

__all__ = ["tables"]


def tables(cells: Sequence[Cell], *, ladder: bool = False) -> list[Table]:
    """One table per operation; of ladders one per cell."""
    if ladder:
        return [_ladder(cell) for cell in cells]
    names = dict.fromkeys(cell.operation for cell in cells)
    made = []
    for name in names:
        own = [cell for cell in cells if cell.operation == name]
        made.append(_matrix(name, own) if any(c.work for c in own) else _overhead(name, own))
    return made


def _table(title: str, left: Iterable[str], right: Iterable[str], last: str) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in left:
        table.add_column(heading, overflow="fold")
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(last, overflow="fold")
    return table


def _matrix(name: str, cells: Sequence[Cell]) -> Table:
    """A row per cell: ours beside the peers, ratio being our speed over theirs."""
    table = _table(
        name,
        ("device", "type", "size"),
        ("time", "GFLOP/s", "spread", "peer's GFLOP/s", "ratio"),
        "peer, notes",
    )
    for cell in cells:
        ours = cell.ours[0] if cell.ours else Outcome("", peer=False)
        ratios = [time_ratio(peer, ours) for peer in cell.peers]
        table.add_row(
            cell.device,
            cell.dtype,
            cell.label,
            *_speed(cell, ours),
            "\n".join(_number(cell.rate(peer)) for peer in cell.peers),
            "\n".join("-" if r is None else f"{r:.2f}" for r in ratios),
            escape("\n".join(_notes(cell, ours))),
        )
    return table


def _notes(cell: Cell, ours: Outcome) -> list[str]:
    """The peers' names, in the order of the columns beside them, then what went wrong."""
    named = [_peer(peer) for peer in cell.peers]
    return [*named, *filter(None, (cell.failure, ours.failure))]


def _peer(peer: Outcome) -> str:
    if peer.failure:
        return f"{peer.name}: {peer.failure}"
    return peer.name if peer.verified else f"{peer.name} (error {peer.error:.2g} times the bound)"


def _ladder(cell: Cell) -> Table:
    """A row per contender, compared with the first that ran."""
    table = _table(
        f"{cell.operation} {cell.label} {cell.dtype} on {cell.device}",
        ("algorithm",),
        ("time", "GFLOP/s", "spread", "speed-up"),
        "verified",
    )
    plainest = next((o for o in cell.outcomes if o.timed), None)
    for outcome in cell.outcomes:
        gain = time_ratio(plainest, outcome) if plainest else None
        state = "yes" if outcome.verified else f"no: error {outcome.error:.2g} times the bound"
        table.add_row(
            outcome.name,
            *_speed(cell, outcome),
            "-" if gain is None else f"{gain:.1f}",
            escape(outcome.failure or state),
        )
    if cell.failure:
        table.add_row("", "", "", "", "", escape(cell.failure))
    return table


def _overhead(name: str, cells: Sequence[Cell]) -> Table:
    """A row per contender: its time, and how many times the peer's it is."""
    table = _table(
        f"{name}: host's time per call",
        ("device", "arguments", "by"),
        ("time", "spread", "ratio"),
        "notes",
    )
    for cell in cells:
        peer = next((p for p in cell.peers if p.timed), None)
        for outcome in cell.outcomes:
            ratio = time_ratio(outcome, peer) if peer else None
            table.add_row(
                cell.device,
                cell.label,
                outcome.name,
                _seconds(outcome),
                _spread(outcome),
                "-" if ratio is None else f"{ratio:.2f}",
                escape(outcome.failure),
            )
        if cell.failure:
            table.add_row(cell.device, cell.label, "", "-", "-", "-", escape(cell.failure))
    return table


def _speed(cell: Cell, outcome: Outcome) -> tuple[str, str, str]:
    return _seconds(outcome), _number(cell.rate(outcome)), _spread(outcome)


def _seconds(outcome: Outcome) -> str:
    if not outcome.timed:
        return "-"
    seconds = outcome.seconds
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _spread(outcome: Outcome) -> str:
    return f"{100 * outcome.spread:.0f} %" if outcome.timed else "-"


def _number(x: float | None) -> str:
    if x is None:
        return "-"
    return f"{x:.3g}" if x < 1000 else f"{x:,.0f}"
