"""Statistics of a field that no device holds at once: Dask's blocks on two workers, under xarray.

Dask cuts a field of measurements over time into blocks and hands them to two workers, processes of
their own; each block is an array of the device while it is worked on. xarray names the dimensions.
"""

from __future__ import annotations

import argparse
from typing import Any

import dask.array as da
import numpy as np

import portable as pt
from portable import dask_arrays


def field(steps: int, edge: int, chunk: int) -> Any:
    """Temperatures over time on a square, made block by block."""
    random = da.random.default_rng(0)
    noise = random.normal(0, 1, (steps, edge, edge), chunks=(chunk, edge, edge))
    season = da.sin(da.linspace(0, 20, steps, chunks=chunk))[:, None, None]
    return (15 + 10 * season + noise).astype(np.float32)


def anomalies(x: Any, device: str) -> Any:
    """How far each place is from its mean over time, at most: on the device, back on the host."""
    there = dask_arrays.on_device(x, device)
    return dask_arrays.on_host(abs(there - there.mean(axis=0)).max(axis=0))


def main() -> None:
    """Computes them on two workers, and compares with NumPy."""
    import xarray as xr
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default=pt.device().name)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--edge", type=int, default=48)
    given = parser.parse_args()
    x = field(given.steps, given.edge, max(1, given.steps // 8))
    workers = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with workers as cluster, Client(cluster):
        found = xr.DataArray(anomalies(x, given.device), dims=("y", "x")).compute()
        host = x.compute()
    expected = abs(host - host.mean(axis=0)).max(axis=0)
    print(f"{given.steps} fields of {given.edge} x {given.edge}, two workers, {given.device}")
    place = {name: int(at) for name, at in found.argmax(...).items()}
    print(f"largest anomaly {float(found.max()):.2f} at {place}")
    print(f"difference from NumPy {float(abs(found - expected).max()):.1e}")


if __name__ == "__main__":
    main()
