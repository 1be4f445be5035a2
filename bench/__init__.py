"""Measures the operations of `portable` on every device, results verified before they are timed."""
