"""Reductions of numbers by key: each thread has an accumulator of its own for each key, in shared memory."""
