"""Kernels that memory bounds, against copies, and their limits."""
