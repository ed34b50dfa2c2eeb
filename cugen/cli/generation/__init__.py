"""What `cugen generate` writes: which files there are, which are current, and how they are made."""
