"""Running totals along an axis."""
