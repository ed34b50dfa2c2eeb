"""One parser of all commands, whose arguments say how shells complete them."""

from __future__ import annotations

import argparse

from shtab import DIRECTORY, FILE, glob

from cugen.cli.generation.emission import KINDS
from cugen.cli.main import COMMANDS, add_arguments, command_module, top_parser
from cugen.emit.resources import data_folder, explanations
from cugen.machine import known_targets

_SPECS = glob("*.yaml", "*.yml")
_BASELINES = glob("*.yaml", "*.yml", "*.lock")
_FILES = {
    "SPEC": _SPECS,
    "OTHER": _BASELINES,
    "OLD": _BASELINES,
    "KERNEL.cu": glob("*.cu"),
    "FILE": FILE,
    "FILE.svg": FILE,
    "PATH": FILE,
    "DIR": DIRECTORY,
}


def full_parser() -> argparse.ArgumentParser:
    """The parser of `cugen` with a subparser for each command. Its actions have the attribute `complete` of shtab, or
    choices."""
    choices = {
        "EXAMPLE": [path.stem for path in sorted(data_folder("specs").glob("*.yaml"))],
        "CODE": list(explanations()),
        "TARGET": list(known_targets()),
        "KIND[,KIND]": list(KINDS),
    }
    parser = top_parser()
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, what in COMMANDS.items():
        command = commands.add_parser(name, help=what, description=what, allow_abbrev=False)
        add_arguments(command_module(name), command)
        for action in command._actions:
            metavar = str(action.metavar or action.dest.upper())
            if metavar in _FILES:
                action.complete = _FILES[metavar]  # type: ignore[attr-defined]
            elif metavar in choices:
                action.choices = choices[metavar]
    return parser
