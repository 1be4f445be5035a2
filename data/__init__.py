"""Data that Portable ships: tuned parameters. Read with importlib.resources."""
