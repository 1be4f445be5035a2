"""The device families that come with Portable, each found through ``portable.backends``."""
