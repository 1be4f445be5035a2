"""The simulator as a device."""
