"""Streams, events, timers and timelines, on every device."""

from __future__ import annotations

import json
import sys
import threading
import time
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.errors import DeviceMismatchError, LaunchError
from portable.profiling import timeline
from portable.system import console

N = 1000


@pt.kernel
def add_to(x, y):
    i = kl.global_id(0)
    if i < x.shape[0]:
        x[i] += y[i]


@pt.kernel
def spin(x, rounds):
    value = x[0]
    for _ in range(rounds):
        value = value * 0.5 + 1.0
    x[0] = value


def _ones(device: Device) -> object:
    return pt.asarray(np.ones(N, np.float32), device=device)


def test_streams_keep_their_order_and_wait_for_each_other(device: Device) -> None:
    first, second = pt.Stream(device), pt.Stream(device)
    with pt.use(device):
        x, y = _ones(device), _ones(device)
        pt.synchronize()
        with first:
            for _ in range(5):
                add_to[N, 64](x, x)
            reached = first.record()
        second.wait(reached)
        with second:
            add_to[N, 64](y, x)
        first.wait(second)
        with first:
            add_to[N, 64](x, y)
        first.synchronize()
        assert reached.done
        np.testing.assert_array_equal(pt.to_numpy(x), np.float32(65))
        np.testing.assert_array_equal(pt.to_numpy(y), np.float32(33))


@pytest.mark.needs_namespace
def test_operations_copies_and_new_arrays_go_to_the_stream(device: Device) -> None:
    stream = pt.Stream(device)
    xp = pt.xp(device)
    with stream:
        x = xp.ones(N, dtype=xp.float32)
        for _ in range(3):
            x = x + x
        total = xp.sum(x)
        held = pt.to_numpy(x)
    assert float(held.sum()) == float(total) == 8 * N


@pytest.mark.needs_compiler
def test_a_stream_is_chosen_by_one_thread_alone(device: Device) -> None:
    if not device.capabilities.streams:
        pytest.skip(f"all streams of {device.name} are one")
    stream = pt.Stream(device)
    x = _ones(device)
    pt.synchronize(device)
    seen: list[int] = []

    def work() -> None:
        with pt.use(device):
            add_to[N, 64](x, x)
        seen.append(1)

    with pt.profile() as profile, stream:
        with pt.use(device):
            add_to[N, 64](x, x)
        device.synchronize()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen
    # compilations, where this is the kernel's first launch, are spans of the host
    assert sorted(span.queue for span in profile.spans if span.device != "host") == [0, 1]
    assert stream.handle is not None


def test_events_measure_the_device(device: Device) -> None:
    x = _ones(device)
    rounds = 200 if device.interprets else 2_000_000
    start, stop = pt.Event(device), pt.Event(device)
    assert "not recorded" in repr(start)
    with pt.use(device), pt.Timer(device) as timer:
        start.record()
        spin[1, 1](x, rounds)
        stop.record()
    stop.wait()
    assert stop.done
    assert 0 < start.elapsed(stop) <= timer.seconds
    assert stop.elapsed(start) == -start.elapsed(stop)


def test_misuse_of_events_is_told(device: Device) -> None:
    event = pt.Event(device)
    for ask in (event.wait, lambda: event.done, lambda: pt.Stream(device).wait(event)):
        with pytest.raises(LaunchError, match="never recorded"):
            ask()
    other = pt.device("simulator:h100")
    with pytest.raises(DeviceMismatchError, match="clocks"):
        event.record().elapsed(pt.Event(other).record())
    with pytest.raises(DeviceMismatchError, match=r"portable\.Event"):
        event.record(pt.Stream(other))
    pt.Stream(other).wait(event)  # by way of the host


def test_a_profile_holds_launches_and_copies(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with pt.use(device), pt.profile(path) as profile:
        x = _ones(device)
        with pt.annotate("phase"):
            for _ in range(3):
                add_to[N, 64](x, x)
            prepared = add_to[N, 64].prepare(x, x)
            prepared()
        np.testing.assert_array_equal(pt.to_numpy(x), np.float32(16))
    assert timeline.recording is None
    launches = [span for span in profile.spans if span.entry.kind == "launch"]
    assert [span.entry.name for span in launches] == ["add_to"] * 4
    assert all(span.seconds > 0 for span in launches)
    (where,) = {span.device for span in launches}
    assert where in (device.name, device.for_arrays().name)
    assert all(span.entry.groups == (16, 1, 1) for span in launches)
    ends = [span.stop for span in launches]
    assert ends == sorted(ends)
    if not isinstance(x, np.ndarray):
        copies = {span.entry.kind: span.entry.nbytes for span in profile.spans}
        assert copies["to device"] == copies["from device"] == 4 * N
    assert "add_to" in str(profile)
    assert "1024 in 16 workgroups" in str(profile)
    events = json.loads(path.read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["ph"] == "M"}
    assert names == {span.device for span in profile.spans}
    shown = [e for e in events if e["ph"] == "X" and e["name"] == "add_to"]
    assert len(shown) == 4
    assert all(e["dur"] > 0 and e["args"]["workgroup"] == [64, 1, 1] for e in shown)
    (phase,) = (e for e in events if e["name"] == "phase")
    assert phase["ts"] <= shown[0]["args"]["enqueued_us"]


def test_one_profile_at_a_time() -> None:
    with pt.profile(), pytest.raises(LaunchError, match="on already"), pt.profile():
        pass
    assert timeline.recording is None


def test_a_stream_waits_for_events_and_streams_alone() -> None:
    with pytest.raises(TypeError, match="waits for an Event or a Stream, not for 3"):
        pt.Stream("simulator").wait(3)  # type: ignore[arg-type]


def test_a_trace_with_no_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    profile = pt.profile(tmp_path / "nowhere" / "trace.json")
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere for the trace; make it"):
        profile.__enter__()


def test_a_profile_ends_with_an_error_in_its_block(device: Device) -> None:
    profile = pt.profile()
    x = _ones(device)

    def failing() -> None:
        with pt.use(device), profile:
            add_to[N, 64](x, x)
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert timeline.recording is None
    assert any(span.entry.name == "add_to" for span in profile.spans)
    with pt.use(device):
        add_to[N, 64](x, x)
        np.testing.assert_array_equal(pt.to_numpy(x), np.float32(4))


@pt.kernel
def step(x):
    x[0] = x[0] * 2 + 1


def test_a_profile_says_what_was_compiled_and_by_whose_name(device: Device) -> None:
    x = _ones(device)
    with pt.use(device), pt.profile() as first:
        step[1, 1](x)
    with pt.use(device), pt.profile() as second:
        step[1, 1](x)
    compiled = [s.entry.name for s in first.spans if s.entry.kind == "compilation"]
    assert compiled in (["translate step", "build step"], ["translate step"])
    assert (len(compiled) == 1) == device.interprets
    assert [s.entry.name for s in first.spans if s.entry.kind == "launch"] == ["step"]
    assert [s.entry.name for s in second.spans] == ["step"]


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(console, "_PATIENCE", 0.02)
    with console.waiting("compiling f for cuda:0"):
        while not terminal.getvalue():
            time.sleep(0.01)
    assert terminal.getvalue() == "\rcompiling f for cuda:0: 0 s\r\x1b[K"
    with console.waiting("something short"):
        pass
    assert "short" not in terminal.getvalue()
