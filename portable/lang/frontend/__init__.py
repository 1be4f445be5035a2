"""From the Python text of a kernel to checked, typed IR.

`source` finds the text, and `outer_names` what the names in it stand for outside; `syntax` asks its
tree. The walk over it is one class in layers: `naming` says what names, attributes and subscripts
stand for, `expressions` adds operators and calls, `bindings` assignments and what they come to
where branches meet, `loops` loops, `translator` the other statements and helpers. `frames` holds
the names of a function under translation, `values` what they may stand for, `variables` those that
branches and loops change, `inference` their types, `structs` frozen dataclasses and NamedTuples.
`builder` collects the statements. `arithmetic`, `conversion` and `complexes` build typed
expressions, `memory` turns subscripts into loads and stores, `handlers` gives each word of the
language its meaning. `compile` repeats the walk until the types of variables no longer change.
"""
