"""Inputs staged in shared memory: of each the tile that a block reads, with its halo."""
