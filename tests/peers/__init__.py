"""Other projects' own tests, run on arrays of `portable.array`."""
