"""Work-items on their way through a block: where they pause, and strands that go on alone."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from portable.sim.active import Active, LoopMasks
from portable.sim.group import Group
from portable.sim.touches import Site
from portable.sim.values import Value


@dataclass(frozen=True, slots=True)
class Pause:
    """A place where another workgroup, or another strand of this one, may go on.

    Attributes
    ----------
    site : Site
        The place.
    stuck : bool
        Whether the workgroup can only repeat itself until others change global memory: the
        end of a round of a loop at which everything stands as it stood at the round's start.
    until : callable or None
        Where only other strands of the workgroup can change something (`turns`): whether
        they have.
    """

    site: Site
    stuck: bool
    until: Callable[[], bool] | None = None


Running = Generator[Pause, None, None]
"""The rest of a block: the places at which others may go on."""


@dataclass(slots=True, eq=False)
class Strand:
    """Some work-items of a workgroup on their way through a block.

    Attributes
    ----------
    members, active : Active
        Its work-items, and those that take part in what is being executed.
    env : dict of str to numpy.ndarray
        Values of variables by name.
    loops : list of LoopMasks
        Of the loops that it is in.
    running : generator
        The rest of the block.
    pause : Pause or None
        Where it stands.
    seen : (int, int)
        How often memory had changed then.
    ended : bool
        Whether the block is done.
    """

    members: Active
    active: Active
    env: dict[str, Value]
    loops: list[LoopMasks]
    running: Running
    pause: Pause | None = None
    seen: tuple[int, int] = (0, 0)
    ended: bool = False

    def ready(self, w: Group) -> bool:
        """Whether it may do something new."""
        if self.ended or self.pause is None:
            return not self.ended
        if self.pause.until is not None:
            return self.pause.until()
        return not self.pause.stuck or self.seen != (w.changes, w.launch.version)

    def turn(self, w: Group) -> Pause | None:
        """Run until the next pause, which is given, or to the end."""
        saved = w.env, w.active, w.loops
        w.env, w.active, w.loops = self.env, self.active, self.loops
        self.pause = next(self.running, None)
        self.ended = self.pause is None
        self.env, self.active, self.loops = w.env, w.active, w.loops
        w.env, w.active, w.loops = saved
        self.seen = w.changes, w.launch.version
        return self.pause
