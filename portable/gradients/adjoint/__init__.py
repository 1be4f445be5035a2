"""Adjoints of kernels, made from their IR.

`exits` writes control flow without jumps, `flatten` single steps on names, `sweeps` the way
forwards and the way back by the `rules` of differentiation, with `memory` for arrays, a `stack` for
what rounds of loops begin with and `logs` for what they loaded; `unused` leaves out the rest.
`gathers` has stencils sum over neighbours instead of adding atomically.
`strips` has processors add to copies of gradients that each thread has for itself.
`reexecution` looks that nothing is worked out again from arrays that are no longer what they were.
"""
