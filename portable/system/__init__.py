"""What is asked of the operating system: files, caches, locks, processes, the console."""
