"""Tries faults, each in a child of its own, so that none is left behind in caches of kernels.

Reads the name of a fault, or of a run without one, from each line of its input, and answers with a
line of JSON. ``PORTABLE_BACKEND`` is the simulator, or another device that stands being forked.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from typing import Any

import portable
from portable.errors import CheckError
from portable.sim import checks, errors
from tests.faults import runs
from tests.faults.fault import Detector, Fault
from tests.faults.planting import plant
from tests.faults.table import FAULTS

DETECTORS: dict[type[Exception], Detector] = {
    errors.RaceError: "race",
    errors.OutOfBoundsError: "bounds",
    errors.UninitialisedReadError: "uninitialised",
    errors.DivergenceError: "divergence",
    errors.EndlessWaitError: "wait",
    errors.AsyncCopyError: "copy",
    errors.NotUniformError: "uniform",
    errors.BrokenPromiseError: "promise",
    CheckError: "bounds",
    AssertionError: "result",
}
DEVICE = os.environ["PORTABLE_BACKEND"]
PATIENCE = 30.0
"""Seconds after which a run on a processor is taken for endless."""

_BY_NAME = {fault.name: fault for fault in FAULTS}


def tried(name: str) -> dict[str, Any]:
    """What came of a fault, or of a run without any: what found it, and its message."""
    fault = _BY_NAME.get(name)
    begun = time.perf_counter()
    try:
        if fault is None:
            runs.RUNS[name](DEVICE)
        else:
            _with(fault)
        found, message = "", ""
    except tuple(DETECTORS) as error:
        found, message = DETECTORS[type(error)], str(error)
    except Exception:  # noqa: BLE001  (whatever a broken kernel leads to is told)
        found, message = "other", traceback.format_exc()
    return {"found_by": found, "message": message, "seconds": time.perf_counter() - begun}


def _with(fault: Fault) -> None:
    plant(fault.change)
    with checks(**fault.checks):
        runs.RUNS[fault.run](DEVICE)


def in_a_child(name: str) -> str:
    """`tried`, in a child."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        gc.disable()  # it is over before much is garbage
        os.close(ours)
        with os.fdopen(theirs, "w") as answer:
            json.dump(tried(name), answer)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as answer:
        ended = DEVICE == "simulator" or select.select([answer], [], [], PATIENCE)[0]
        if not ended:
            os.kill(child, signal.SIGKILL)
        text = answer.read()
    os.waitpid(child, 0)
    how = ("other", "it died") if ended else ("wait", "it never ended")
    return text or json.dumps(dict(zip(("found_by", "message"), how, strict=True), seconds=0.0))


def main() -> None:
    """Answers lines until there are no more."""
    portable.device(DEVICE)  # found once, not by each child
    gc.freeze()
    for line in sys.stdin:
        sys.stdout.write(in_a_child(line.strip()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
