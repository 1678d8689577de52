"""Records of runs, and the comparison of two of them."""
