"""Number types of options, for argparse."""

from __future__ import annotations

import argparse

LAST_PORT = 65535


def positive(text: str) -> int:
    """Integer of at least 1."""
    return _number(text, 1)


def natural(text: str) -> int:
    """Integer of at least 0."""
    return _number(text, 0)


def port(text: str) -> int:
    """Number of a TCP port; 0 is any free one."""
    if not text.isdecimal() or int(text) > LAST_PORT:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to {LAST_PORT}, not {text!r}")
    return int(text)


def _number(text: str, minimum: int) -> int:
    if not text.isdecimal() or int(text) < minimum:
        raise argparse.ArgumentTypeError(f"expected a number of at least {minimum}, not {text!r}")
    return int(text)
