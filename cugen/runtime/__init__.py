"""Execution of kernels: devices, calls, inputs, and verification against the reference."""
