"""What operations on arrays are made of: copies, maps, reductions, scans, sorts, compaction."""
