"""What is written in the kernel language itself: collectives, complex and elementary functions."""
