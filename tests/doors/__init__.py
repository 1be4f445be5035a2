"""Doors by ways by devices: each way of an operation through each door that leads to it."""
