"""The table of compute capabilities."""

from cugen.targets.table import Target, UnknownTarget, canonical_name, is_known, known_targets, target

__all__ = ["Target", "UnknownTarget", "canonical_name", "is_known", "known_targets", "target"]
