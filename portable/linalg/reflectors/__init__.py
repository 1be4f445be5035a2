"""Householder reflectors, made and applied."""
