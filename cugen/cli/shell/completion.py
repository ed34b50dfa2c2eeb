"""Completion scripts of shells."""

from __future__ import annotations

SHELLS = ("bash", "zsh", "fish")


def completion(shell: str) -> str:
    """The script with which a shell completes `cugen`: commands, options, their values, and spec files."""
    import shtab

    from cugen.cli.shell.parser import full_parser

    return str(shtab.complete(full_parser(), shell=shell))
