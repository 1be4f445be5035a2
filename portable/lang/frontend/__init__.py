"""From the Python text of a kernel to checked, typed IR.

`source` finds the text. The walk over it is one class in layers: `naming` says what names,
attributes and subscripts stand for, `expressions` adds operators, `calls` calls, `bindings`
assignments and what they come to where branches meet, `translator` statements. `values` is what
names may stand for while that goes on, `variables` those that branches and loops change, `structs`
frozen dataclasses and NamedTuples. `arithmetic`, `conversion` and `complexes` build typed
expressions, `memory` turns subscripts into loads and stores, `handlers` gives each word of the
language its meaning. The types of variables are found by repeating the walk until nothing changes.
"""
