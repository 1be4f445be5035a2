"""What the class of arrays is put together from: indexing, NumPy's methods, NumPy's functions."""
