"""What ran, when, and what devices reported."""
