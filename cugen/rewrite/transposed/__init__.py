"""Transposed convolutions: reductions whose terms a congruence chooses."""
