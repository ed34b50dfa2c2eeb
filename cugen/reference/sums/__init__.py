"""Sums and other reductions, with their error bounds."""
