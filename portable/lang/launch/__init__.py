"""Launches: which program, with what in its parameters, over which range."""
