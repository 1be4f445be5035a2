"""Work that is replayed through CuPy, with a CuPy that notes what it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from portable.profiling import timeline
from portable_backends.cuda.streams import Replay, before_waits, get_ready


class _Stream:
    """A stream that launches, or is captured."""

    def __init__(self, noted: list[str], captured: bool = False) -> None:
        self.noted, self.captured = noted, captured

    def begin_capture(self) -> None:
        self.captured = True
        self.noted.append("begin")

    def end_capture(self) -> Any:
        self.captured = False
        self.noted.append("end")
        return SimpleNamespace(
            launch=lambda: self.noted.append("graph"), upload=lambda stream: None
        )

    def is_capturing(self) -> bool:
        return self.captured


class _Cuda(SimpleNamespace):
    """What `cupy.cuda` is asked for."""

    def __init__(self, noted: list[str]) -> None:
        self.stream = _Stream(noted)
        self.runtime = SimpleNamespace(getDevice=lambda: 0)
        self.MemoryPool = lambda: SimpleNamespace(malloc=None)
        self.using_allocator = lambda malloc: nullcontext()
        self.get_current_stream = lambda: self.stream
        self.noted = noted

    def Stream(self, non_blocking: bool, priority: int = 0) -> Any:  # noqa: N802 - CuPy's name
        assert priority <= 0
        made = _Stream(self.noted)

        @contextmanager
        def current() -> Iterator[None]:
            before, self.stream = self.stream, made
            yield
            self.stream = before

        scope = current()
        return _Scoped(made, scope)


class _Scoped(_Stream):
    """A stream that is the current one in a block."""

    def __init__(self, stream: _Stream, scope: Any) -> None:
        super().__init__(stream.noted)
        self._stream, self._scope = stream, scope

    def begin_capture(self) -> None:
        self._stream.begin_capture()

    def end_capture(self) -> Any:
        return self._stream.end_capture()

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(self, *_: object) -> None:
        self._scope.__exit__(None, None, None)


class _Hook:
    """CuPy's hooks of memory: one that is entered is called before memory is taken."""

    entered: ClassVar[list[_Hook]] = []

    def __enter__(self) -> None:
        self.entered.append(self)

    def __exit__(self, *_: object) -> None:
        self.entered.remove(self)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    noted: list[str] = []
    module: Any = ModuleType("cupy")
    module.cuda = ModuleType("cupy.cuda")
    cuda = _Cuda(noted)
    for name, value in {**vars(cuda), "Stream": cuda.Stream, "MemoryHook": _Hook}.items():
        setattr(module.cuda, name, value)
    module.cuda.get_current_stream = lambda: cuda.stream
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "cupy.cuda", module.cuda)
    return noted


def replay(noted: list[str], work: Callable[[], object]) -> Replay:
    device: Any = SimpleNamespace(index=0, stream_scope=nullcontext)
    return Replay(device, work)


def test_work_becomes_a_graph_once_its_programs_are_there(noted: list[str]) -> None:
    run = replay(noted, lambda: noted.append("work"))
    for _ in range(3):
        run()
    assert noted == ["work", "begin", "work", "end", "graph", "graph"]


def test_work_within_a_graph_is_part_of_it(noted: list[str]) -> None:
    inner = replay(noted, lambda: noted.append("work"))
    for _ in range(2):
        inner()
    noted.clear()
    outer = replay(noted, inner)
    for _ in range(3):
        outer()
    assert noted == ["graph", "begin", "work", "end", "graph", "graph"]


def test_launches_are_seen_one_by_one_while_they_are_recorded(
    noted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = replay(noted, lambda: noted.append("work"))
    for _ in range(2):
        run()
    noted.clear()
    monkeypatch.setattr(timeline, "recording", object())
    run()
    assert noted == ["work"]


def test_a_thread_gets_ready_before_it_waits(noted: list[str]) -> None:
    get_ready()
    with before_waits(lambda: noted.append("ready")):
        get_ready()
        (hook,) = _Hook.entered
        hook.alloc_preprocess(device_id=0, mem_size=1)  # type: ignore[attr-defined]
        replay(noted, lambda: None)
    get_ready()
    assert noted == ["ready", "ready"]
    assert not _Hook.entered
