"""A process that launches kernels, forks, and ends with threads that go on launching."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.errors import DeviceFaultError


@pt.kernel
def add_one(x: kl.Array) -> None:
    i = kl.global_id(0)
    if i < x.shape[0]:
        x[i] += 1.0


def _launch_for_ever(device: Device, started: threading.Semaphore) -> None:
    x = device.from_numpy(np.zeros(1000, np.float32))
    with pt.use(device):
        while True:
            add_one[1000](x)
            started.release()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _tried(name: str, function: Any, *arguments: Any) -> None:
    try:
        function(*arguments)
    except DeviceFaultError as error:
        _say(f"{name}: {error}")
    else:
        _say(f"{name}: done")


def _in_child(device: Device, x: Any) -> None:
    """What is tried with a device that the parent opened; then one that nobody spoils."""
    _tried("launch", add_one[1000], x)
    _tried("compile", add_one[500, 50], x)
    _tried("copy", device.synchronize)
    with pt.use("simulator"):
        _tried("simulator", add_one[8], np.zeros(8, np.float32))
    os._exit(0)


def main(name: str) -> None:
    device = pt.use(name).device
    x = device.from_numpy(np.zeros(1000, np.float32))
    add_one[1000](x)
    device.synchronize()
    started = threading.Semaphore(0)
    for _ in range(3):
        threading.Thread(target=_launch_for_ever, args=(device, started), daemon=True).start()
    started.acquire()
    child = os.fork()
    if child == 0:
        _in_child(device, x)
    _say(f"child ended with {os.waitpid(child, 0)[1]}")
    time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1])
