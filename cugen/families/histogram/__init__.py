"""Histograms: counts and integer sums by key, added up by atomics in shared memory."""
