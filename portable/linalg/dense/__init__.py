"""Matrices to bands, by panels of reflectors.

`reduction` goes from panel to panel, as `shapes` lays it out: `panel_kernels` makes a panel a
triangle in a tree of workgroups (`reflector_tree`), products change the rest.
"""
