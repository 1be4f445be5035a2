"""Matrices to bands, by panels of reflectors."""
