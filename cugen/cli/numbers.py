"""Number types of options, for argparse."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """Integer of at least 1."""
    if natural(text) == 0:
        raise argparse.ArgumentTypeError("expected a number of at least 1, not '0'")
    return int(text)


def natural(text: str) -> int:
    """Integer of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, not {text!r}")
    return int(text)
