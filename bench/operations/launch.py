"""What it costs to start a kernel, beside the library beneath."""

from typing import Any

from portable.dtypes import float32
from portable_bench.launches import called, prepared, raw
from portable_bench.operation import Case, Operation, Run, Shapes, Size, Sizes, Ways
from portable_bench.peers import Peers, peer

_LABELS = {1: "1 array", 3: "3 arrays, 1 number"}


class Launch(Operation):
    """The host's time per launch: a warm call, a prepared one, and the library's own.

    A size is the number of arrays. The kernels have next to nothing to do.
    """

    name = "launch"
    axes = ("ARRAYS",)
    sizes = dict.fromkeys(("cpu", "gpu", "simulator"), Sizes("1,3"))
    dtypes = (float32,)
    timed = "enqueue"
    in_place = True

    def complete(self, size: Size) -> Size:
        if len(size) != 1 or size[0] not in _LABELS:
            raise ValueError("expected the number of arrays, 1 or 3")
        return size

    def label(self, size: Size) -> str:
        return _LABELS[size[0]]

    def shapes(self, size: Size) -> Shapes:
        return ((256,),) * size[0]

    def work(self, case: Case) -> None:
        """None worth counting."""

    def exact(self, x: Any, *more: Any) -> Any:
        return 2 * x + more[0] if more else 2.0

    def prepare(self, case: Case, *arrays: Any) -> Run:
        return called(*arrays)

    def ways(self, case: Case) -> Ways:
        return {"warm": called, "prepared": prepared}

    def peers(self, case: Case) -> Peers:
        return [peer(case, "raw", lambda *arrays: raw(case.device, *arrays))]
