"""The canonical form of a spec, and the steps of statements that need several launches."""
