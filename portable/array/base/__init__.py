"""What functions of arrays stand on: operations, operators, defaults, what the host has."""
