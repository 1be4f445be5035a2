"""The typed, structured intermediate representation between Python and every target's text.

`types` what a value may be, `expressions` pure value trees, `statements` effects and control
flow, `pipeline` the mainloop over tiles, `kernel` whole kernels. `walks` goes through trees and
rebuilds them, `nodes` has short ways to write what passes make often, `facts` what can be proved of
integers, `elementwise` the functions of numbers. Free of C: a node states a meaning; how it is
spelled is the business of `portable.lang.emit`, how it runs is that of `portable.sim`.
"""
