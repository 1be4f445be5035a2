"""What all array functions stand on: memory, geometry, recipes of launches, shared kernels."""
