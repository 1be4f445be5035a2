"""The standard's functions that arrays have as methods too: of any class of arrays.

So they stand below `portable.array.array.Array`, whose methods call them. Those that need the class
itself (creation, sets, the extensions) lie beside it.
"""
