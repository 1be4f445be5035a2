"""The price of a European call option by chance, beside the formula of Black and Scholes.

Each work-item draws its own end prices with ``kl.random``, whose numbers are a function of the seed
and the work-item, and sums their payoffs; the sums are added up by the array library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

import portable as pt
from portable import lang as kl

SPOT, STRIKE, RATE, VOLATILITY, YEARS = 100.0, 105.0, 0.03, 0.25, 1.0
EACH = 64
"""Blocks of four paths that a work-item follows."""


@pt.kernel
def payoffs(sums: Any, seed: Any, drift: Any, deviation: Any) -> None:
    """What `EACH` times four paths pay in sum, for each work-item."""
    i = kl.global_id(0)
    if i < sums.shape[0]:
        total = kl.f32(0)
        for k in range(EACH):
            for z in kl.random.normal(seed, kl.u64(i) * EACH + kl.u64(k)):
                end = kl.f32(SPOT) * kl.exp(drift + deviation * z)
                total += kl.maximum(end - STRIKE, 0.0)
        sums[i] = total


def run(work_items: int, seed: int = 2026) -> float:
    """The price from ``256 * work_items`` paths."""
    xp = pt.xp()
    sums = xp.empty(work_items, dtype=xp.float32)
    drift = np.float32((RATE - VOLATILITY**2 / 2) * YEARS)
    payoffs[work_items, None](sums, np.uint64(seed), drift, np.float32(VOLATILITY * YEARS**0.5))
    mean = float(xp.sum(sums)) / (4 * EACH * work_items)
    return mean * float(np.exp(-RATE * YEARS))


def formula() -> float:
    """The price by Black and Scholes (1973)."""
    spread = VOLATILITY * YEARS**0.5
    d = (np.log(SPOT / STRIKE) + (RATE + VOLATILITY**2 / 2) * YEARS) / spread
    return float(SPOT * norm.cdf(d) - STRIKE * np.exp(-RATE * YEARS) * norm.cdf(d - spread))


def main() -> None:
    """Prices the option with 25 million paths."""
    print(f"{pt.device().name}: {run(100_000):.4f} by chance, {formula():.4f} by the formula")


if __name__ == "__main__":
    main()
