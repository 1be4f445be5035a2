"""Layers that training alone makes something of."""

from __future__ import annotations

from dataclasses import dataclass

from portable.nn.layers.layer import Layer, Shape


@dataclass(frozen=True)
class Dropout(Layer):
    """Leaves out numbers at random while it is trained, ``torch.nn.Dropout``.

    What stays is divided by ``1 - p``; predictions leave samples as they are. Which numbers are
    left out is the same on all devices (Philox, by the number of the step).

    Parameters
    ----------
    p : float
        The share that is left out, from 0 to below 1.
    seed : int
        Of the generator; two layers with the same leave out the same places.

    Raises
    ------
    ValueError
        For other shares.

    Notes
    -----
    N. Srivastava et al., "Dropout", JMLR 15 (2014).
    """

    p: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.p < 1:
            raise ValueError(f"Dropout(p={self.p!r}): expected a number from 0 to below 1")
        if self.seed < 0:
            raise ValueError(f"Dropout(seed={self.seed!r}): expected a whole number from 0")

    def output_shape(self, shape: Shape) -> Shape:
        """The same."""
        return shape

    def bound(self, parameter: float, given: float) -> float:
        """What stays becomes larger."""
        return max(1.0, given / (1 - self.p))
