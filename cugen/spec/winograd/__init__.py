"""Convolutions that Winograd's algorithm F(2 x 2, 3 x 3) can compute, and its transforms."""
