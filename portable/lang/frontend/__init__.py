"""From the Python text of a kernel to checked, typed IR.

`source` finds the text, `translator` walks it, `values` is what names may stand for while that goes
on, `arithmetic`, `conversion` and `complexes` build typed expressions, `memory` turns subscripts
into loads and stores, `words` gives each word of the language its meaning, `inference` finds the
types of variables by repeating the walk until nothing changes.
"""
