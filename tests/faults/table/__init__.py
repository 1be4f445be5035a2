"""The list of planted faults, by what is computed."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import Fault
from tests.faults.table.arrays import ARRAYS
from tests.faults.table.bands import BANDS
from tests.faults.table.dense import DENSE
from tests.faults.table.factorisations import FACTORISATIONS
from tests.faults.table.networks import NETWORKS
from tests.faults.table.products import PRODUCTS, UNITS
from tests.faults.table.spectral import SPECTRAL

__all__ = ["FAULTS"]

FAULTS: Final[tuple[Fault, ...]] = (
    *PRODUCTS,
    *UNITS,
    *BANDS,
    *DENSE,
    *FACTORISATIONS,
    *SPECTRAL,
    *NETWORKS,
    *ARRAYS,
)
"""All of them; names differ."""
