"""Convolutions as sums over filters, from memory or from boxes of tiles."""
