"""How many examples Hypothesis draws for a property."""

from __future__ import annotations

from hypothesis import settings


def examples(full: int) -> int:
    """`full` with the profile `full`; by default a share of it, as of the 100 of a property that gives no number."""
    return -(-full * settings.default.max_examples // 100)
