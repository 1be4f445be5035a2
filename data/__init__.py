"""Data that Portable ships: tuned parameters, a trace and its generator."""
