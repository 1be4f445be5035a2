"""What each process of MPI runs; the first prints what all found."""

import json
import signal
import sys

import numpy as np
from mpi4py import MPI

import portable as pt
from portable import parallel
from portable.conv import prepare_shared
from portable.errors import PortableError


def work(member: parallel.Member) -> list[float]:
    x = pt.asarray(np.full((2, 2), member.rank + 1, np.float32), device=member.device)
    total = pt.to_numpy(member.all_reduce(x))
    gathered = pt.to_numpy(member.all_gather(x))
    member.send(x, (member.rank + 1) % member.size)
    received = pt.to_numpy(member.recv((member.rank - 1) % member.size))
    later = pt.asarray(np.full(3, member.rank, np.float16), device=member.device)
    told = pt.to_numpy(member.start_broadcast(later, 1).wait())
    traded = member.all_to_all([10 * member.rank + to for to in range(member.size)])
    traded_well = traded == [10 * source + member.rank for source in range(member.size)]
    images = np.ones((1, 1, 4, 4), np.float32) * (member.rank + 1)
    plan = prepare_shared(member, images.shape, np.ones((1, 1, 3, 3), np.float32))
    results = pt.to_numpy(plan(images))
    try:
        member.all_reduce(x[: 1 + member.rank % 2])
    except PortableError as error:
        refused = "different things" in str(error)
    return [
        float(total[0, 0]),
        *gathered[::2, 0].tolist(),
        float(received[0, 0]),
        *results[:, 0, 0, 0].tolist(),
        float(refused and traded_well and (told == 1).all()),
    ]


def fail_alone(member: parallel.Member) -> None:
    if member.rank == 1:
        raise RuntimeError("the disk is gone")
    member.start_all_reduce(np.ones(1, np.float32), agreed=True).wait()


def leave_early(member: parallel.Member) -> None:
    if member.rank:
        member.barrier()


def refusal(group: parallel.Group) -> str:
    try:
        group.run(leave_early)
    except PortableError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    world = MPI.COMM_WORLD
    group = parallel.group(world, device="simulator")
    expected = "member 0: nothing more ; member 1: barrier"
    refused = expected in refusal(group)
    if sys.argv[1:] == ["fail"]:
        group.run(fail_alone)
    if sys.argv[1:] == ["interrupt"] and world.Get_rank() == 1:
        signal.raise_signal(signal.SIGINT)
    (found,) = group.run(work)
    everything = world.gather([*found[:-1], float(refused and found[-1])])
    if everything is not None:
        print(json.dumps(everything))  # noqa: T201 - read by the test
