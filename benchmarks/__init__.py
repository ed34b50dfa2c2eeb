"""Benchmarks, which are run as modules from the root of the repository: `python -m benchmarks.gemm.products`."""
