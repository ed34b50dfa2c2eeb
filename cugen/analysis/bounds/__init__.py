"""Proofs that the accesses of a plan stay inside of their arrays."""
