"""What the rooms of linear algebra share: operands, tilings, sums, scaling."""
