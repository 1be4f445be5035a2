"""Results as tables for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.markup import escape
from rich.table import Table

from portable_bench.environment import Library
from portable_bench.growth import Fit, Model
from portable_bench.results import Cell, Change, Outcome, time_ratio
from portable_bench.roof import Roof, attained, roofs

# Numbers as people read them.

_UNITS: Final = (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9))
_NONE: Final = "-"


def seconds(x: float | None) -> str:
    """With three digits and the unit that suits."""
    if x is None:
        return _NONE
    unit, factor = next((u for u in _UNITS if x * u[1] >= 1), ("ps", 1e12))
    return f"{x * factor:.3g} {unit}" if x * factor < 1000 else f"{x * factor:.0f} {unit}"


def percent(x: float | None) -> str:
    """A fraction in hundredths."""
    if x is None:
        return _NONE
    return f"{100 * x:.2g} %" if x < 0.1 else f"{100 * x:.0f} %"


def number(x: float | None) -> str:
    """With three digits, or all those before the point."""
    if x is None:
        return _NONE
    return f"{x:.3g}" if x < 1000 else f"{x:,.0f}"


# -- tables ----------------------------------------------------------------------------------------

_OWN = "portable, "


def tables(cells: Sequence[Cell]) -> list[Table]:
    """One per operation."""
    limits = roofs(cells)
    made = []
    for name in dict.fromkeys(cell.operation for cell in cells):
        rows = [cell for cell in cells if cell.operation == name]
        counted = any(cell.work for cell in rows)
        table = _matrix(name, rows, limits) if counted else _overhead(name, rows)
        made.append(_marked(table))
    return made


def plain(text: str) -> str:
    """Without markup or control characters, which a file of results may hold."""
    return escape("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text))


def _add(table: Table, *texts: str) -> None:
    table.add_row(*map(plain, texts))


def _table(title: str, left: Iterable[str], right: Iterable[str], last: str) -> Table:
    table = Table(title=plain(title))
    for heading in left:
        table.add_column(heading, overflow="fold")
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(last, overflow="fold")
    return table


def _matrix(name: str, cells: Sequence[Cell], limits: dict[tuple[str, str], Roof]) -> Table:
    """A row per cell: ours beside the peers, ratio being our speed over theirs."""
    table = _table(
        name,
        ("device", "type", "size"),
        ("time", "wall", "spread", "GFLOP/s", "GB/s", "of roof", "peer", "ratio"),
        "notes",
    )
    for cell in cells:
        ours = _best(cell.ours)
        _add(
            table,
            cell.device,
            cell.dtype,
            cell.label,
            *_speed(cell, ours),
            percent(attained(cell, ours, limits.get((cell.device, cell.dtype)))),
            "\n".join(seconds(p.seconds if p.timed else None) for p in cell.peers),
            "\n".join(_ratio(peer, ours) for peer in cell.peers),
            "\n".join(_notes(cell, ours)),
        )
    return table


def _ratio(over: Outcome, under: Outcome) -> str:
    """How many times as long `over` took, with a mark where samples do not bear it out."""
    ratio = time_ratio(over, under)
    return number(ratio) + ("?" if ratio is not None and (over.doubt or under.doubt) else "")


def _marked(table: Table) -> Table:
    """Says what the mark means, where it stands."""
    marks = any("?" in str(text) for column in table.columns for text in column.cells)
    if marks:
        table.caption = "?: from one sample, or from samples that disagree"
    return table


def _best(ours: Sequence[Outcome]) -> Outcome:
    """The fastest of ours; the first where none ran."""
    timed = [o for o in ours if o.timed]
    if timed:
        return min(timed, key=lambda o: o.seconds)
    return ours[0] if ours else Outcome("", peer=False)


def _notes(cell: Cell, ours: Outcome) -> list[str]:
    """The peers' names, in the order of the columns beside them, then what went wrong."""
    named = [_peer(peer) for peer in cell.peers]
    several = [f"ours: {ours.name.removeprefix(_OWN)}"] if len(cell.ours) > 1 and ours.timed else []
    return [*named, *several, *filter(None, (cell.failure, ours.failure, ours.doubt))]


def _peer(peer: Outcome) -> str:
    if peer.failure or peer.doubt:
        return f"{peer.name}: {peer.failure or peer.doubt}"
    return peer.name if peer.verified else f"{peer.name} (error {peer.error:.2g} times the bound)"


def ladder_table(cell: Cell, limits: dict[tuple[str, str], Roof]) -> Table:
    """A row per contender, compared with the first that ran."""
    table = _table(
        f"{cell.operation} {cell.label} {cell.dtype} on {cell.device}",
        ("algorithm",),
        ("time", "wall", "spread", "GFLOP/s", "GB/s", "of roof", "speed-up"),
        "verified",
    )
    plainest = next((o for o in cell.outcomes if o.timed), None)
    for outcome in cell.outcomes:
        gain = _ratio(plainest, outcome) if plainest else number(None)
        state = "yes" if outcome.verified else f"no: error {outcome.error:.2g} times the bound"
        _add(
            table,
            outcome.name,
            *_speed(cell, outcome),
            percent(attained(cell, outcome, limits.get((cell.device, cell.dtype)))),
            gain,
            outcome.failure or state,
        )
    if cell.failure:
        _add(table, "", *[""] * 7, cell.failure)
    return _marked(table)


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
            ratio = _ratio(outcome, peer) if peer else number(None)
            _add(
                table,
                cell.device,
                cell.label,
                outcome.name,
                seconds(outcome.seconds if outcome.timed else None),
                _spread(outcome),
                ratio,
                outcome.failure,
            )
        if cell.failure:
            _add(table, cell.device, cell.label, "", "-", "-", "-", cell.failure)
    return table


def change_table(cells: Sequence[Change]) -> Table:
    """A row per contender whose speed changed beyond the noise, or that began or ceased to work.

    The title counts all, those too that only one of the runs measured.
    """
    counts = Counter(change.verdict for change in cells)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    table = _table(
        f"changes: {counted or 'none'}",
        ("operation", "device", "type", "size", "by"),
        ("before", "after", "speed", "noise"),
        "verdict",
    )
    for change in cells:
        if change.verdict in ("same", "failing", "new", "gone"):
            continue
        cell, times = change.cell, (change.before, change.after)
        _add(
            table,
            cell.operation,
            cell.device,
            cell.dtype,
            cell.label,
            change.name,
            *(seconds(o.seconds if o and o.timed else None) for o in times),
            number(change.ratio),
            percent(change.noise),
            f"{change.verdict} {change.after.failure if change.after else ''}".strip(),
        )
    return table


def fit_table(fits: Sequence[Fit]) -> Table:
    """A row per curve."""
    table = _table(
        "scaling: time ~ product of extents to these powers",
        ("operation", "device", "type", "by"),
        ("points", "deviation"),
        "powers",
    )
    for fit in fits:
        powers = ", ".join(f"{name}^{power:.2f}" for name, power in fit.powers.items())
        where = (fit.operation, fit.device, fit.dtype, fit.name)
        _add(table, *where, str(fit.points), percent(fit.deviation), powers)
    return table


def model_table(models: Sequence[Model]) -> Table:
    """A row per curve: the time that each of the model's units takes."""
    table = _table(
        "performance model: time = sum of counts times these",
        ("operation", "device", "type"),
        ("points", "deviation", "worst"),
        "time of each",
    )
    for model in models:
        each = ", ".join(f"{name} {seconds(x)}" for name, x in model.seconds.items())
        figures = (str(model.points), percent(model.deviation), percent(model.worst))
        _add(table, model.operation, model.device, model.dtype, *figures, each)
    return table


def _speed(cell: Cell, outcome: Outcome) -> tuple[str, ...]:
    timed = outcome.timed
    flops, moved = cell.flop_rate(outcome), cell.byte_rate(outcome)
    return (
        seconds(outcome.seconds if timed else None),
        seconds(outcome.wall if timed else None),
        _spread(outcome),
        number(flops and 1e-9 * flops),
        number(moved and 1e-9 * moved),
    )


def _spread(outcome: Outcome) -> str:
    """Nothing for a single sample."""
    return percent(outcome.spread if outcome.timed and len(outcome.samples) > 1 else None)


# What libraries ran with, as people read it.


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
