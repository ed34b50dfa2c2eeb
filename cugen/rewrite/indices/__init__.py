"""Output indices replaced by others that run over the same elements."""
