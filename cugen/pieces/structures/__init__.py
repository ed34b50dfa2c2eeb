"""Fields of structures, moved by vectors."""
