"""Bands to bidiagonal form: the chase of bulges, and wider bands made narrower."""
