"""Programs of LLVM IR written by hand, to test what runs them without the language."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable.backend import Argument, Executable, Program
from portable.dtypes import int32, int64
from portable_backends.cpu.native_device import NativeDevice

_HEAD: Final = """\
define void @entry(ptr noalias %arguments, ptr noalias %launch, i64 %first, i64 %last, ptr %room) {
entry:
  %x = load ptr, ptr %arguments
  %n.at = getelementptr i64, ptr %arguments, i64 1
  %n = load i64, ptr %n.at
  br label %group
group:
  %g = phi i64 [ %first, %entry ], [ %next, %end ]
  %x.at = getelementptr i32, ptr %x, i64 %g
"""

_TAIL: Final = """\
end:
  %next = add i64 %g, 1
  %more = icmp ult i64 %next, %last
  br i1 %more, label %group, label %done
done:
  ret void
}
"""

COUNT: Final = f"""{_HEAD}
  %old = atomicrmw add ptr %x.at, i32 1 monotonic
  br label %end
{_TAIL}"""
"""Each workgroup adds one to its element."""

SLOW: Final = f"""{_HEAD}
  br label %spin
spin:
  %i = phi i64 [ 0, %group ], [ %i.next, %spin ]
  %i.next = add i64 %i, 1
  %old.spin = load volatile i32, ptr %x.at
  %spins = icmp ult i64 %i.next, %n
  br i1 %spins, label %spin, label %count
count:
  %old = atomicrmw add ptr %x.at, i32 1 monotonic
  br label %end
{_TAIL}"""
"""Each looks at its element n times, then adds one to it."""

WAITS: Final = f"""{_HEAD}
  %before = getelementptr i32, ptr %x.at, i64 -1
  %is.first = icmp eq i64 %g, 0
  br i1 %is.first, label %pass, label %wait
wait:
  %left = load atomic i32, ptr %before acquire, align 4
  %is.ready = icmp ne i32 %left, 0
  br i1 %is.ready, label %pass, label %wait
pass:
  store atomic i32 1, ptr %x.at release, align 4
  br label %end
{_TAIL}"""
"""Each waits until the one before it is done."""

ROOM: Final = f"""{_HEAD}
  %number = trunc i64 %g to i32
  br label %fill
fill:
  %i = phi i64 [ 0, %group ], [ %i.next, %fill ]
  %room.at = getelementptr i32, ptr %room, i64 %i
  store volatile i32 %number, ptr %room.at
  %i.next = add i64 %i, 1
  %fills = icmp ult i64 %i.next, %n
  br i1 %fills, label %fill, label %check
check:
  %j = phi i64 [ 0, %fill ], [ %j.next, %check ]
  %wrong = phi i32 [ 0, %fill ], [ %wrong.next, %check ]
  %check.at = getelementptr i32, ptr %room, i64 %j
  %held = load volatile i32, ptr %check.at
  %differs = icmp ne i32 %held, %number
  %one = zext i1 %differs to i32
  %wrong.next = add i32 %wrong, %one
  %j.next = add i64 %j, 1
  %checks = icmp ult i64 %j.next, %n
  br i1 %checks, label %check, label %tell
tell:
  %place = ptrtoint ptr %room to i64
  %odd = and i64 %place, 127
  %odd.narrow = trunc i64 %odd to i32
  %fault = or i32 %wrong.next, %odd.narrow
  store i32 %fault, ptr %x.at
  br label %end
{_TAIL}"""
"""Each fills its room with its number and counts what is something else, or a room out of line."""


def program(text: str, local_bytes: int = 0) -> Program:
    """One of these; it takes an array of int32 with one element per workgroup, and a number."""
    arguments = (Argument("pointer", 0, 0, int32), Argument("scalar", 1, 0, int64))
    return Program(text, "entry", "llvm", arguments, (1, 1, 1), local_bytes, False, ())


def launch(
    device: NativeDevice, executable: Executable, x: np.ndarray[Any, Any], n: int = 0
) -> None:
    """One workgroup for each element."""
    executable.launch((len(x), 1, 1), [device.view(x).handle, n])
