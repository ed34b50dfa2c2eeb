"""Reductions by key: their terms, the problem that statements pose, and the base of their kernels."""
