"""One form of specs that differ in spelling: expressions, extents, gates."""
