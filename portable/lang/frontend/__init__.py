"""From the Python text of a kernel to checked, typed IR.

`source` finds the text, and `outer_names` what the names in it stand for outside; `syntax` asks its
tree. The walk over it is one class in layers: `naming` says what names, attributes and subscripts
stand for, `expressions` adds operators and calls, `bindings` assignments and what they come to
where branches meet, `translator` statements. `values` is what names may stand for while that goes
on, `variables` those that branches and loops change, `structs` frozen dataclasses and NamedTuples.
`builder` collects the statements. `arithmetic`, `conversion` and `complexes` build typed
expressions, `memory` turns subscripts into loads and stores, `handlers` gives each word of the
language its meaning. `compile` repeats the walk until the types of variables no longer change.
"""
