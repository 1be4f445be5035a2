"""Orders of lines, by merging and by digits, and what is distinct in them."""
