"""The typed, structured intermediate representation between Python and every target's text.

`types` what a value may be, `expressions` pure value trees, `statements` effects and control
flow, `kernel` whole kernels. Free of C: a node states a meaning;
how it is spelled is the business of `portable.lang.emit`, how it runs is that of `portable.sim`.
"""
