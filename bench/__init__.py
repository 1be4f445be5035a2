"""Measures the operations of `portable` on every device, each result verified before it is timed."""
