"""How work from file to file tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

from portable.gf2.elimination import Progress

Stages = Callable[[str, float], None]
"""Is told a stage ("eliminators", "rows", "elimination", "result") and which part is done."""


def stage(stages: Stages | None, name: str) -> Progress | None:
    """What tells how far one stage is."""
    return None if stages is None else lambda done: stages(name, done)
