"""Orders of lines, by rank and by digits, and what is distinct in them."""
