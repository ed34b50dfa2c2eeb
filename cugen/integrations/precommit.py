"""Hooks of `.pre-commit-hooks.yaml`: `python -m cugen.integrations.precommit check|lint [ARGUMENT…]`.

`check` runs `cugen generate --check` and `lint` runs `cugen check`, with the given arguments, else for the specs of
`[tool.cugen]`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cugen.cli.failures import WRONG_INPUT
from cugen.cli.main import main as cugen
from cugen.integrations.config import ConfigError, Project, read

_COMMANDS = {"check": ("generate", "--check", "--gnu"), "lint": ("check", "--gnu", "--quiet")}


def main(words: Sequence[str]) -> int:
    """Runs one hook and returns its exit status."""
    if not words or words[0] not in _COMMANDS:
        print(f"error: expected one of {', '.join(_COMMANDS)}", file=sys.stderr)
        return WRONG_INPUT
    name, *arguments = words
    try:
        return cugen([*_COMMANDS[name], *(arguments or _configured(name))])
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG_INPUT


def _configured(name: str) -> Sequence[str]:
    """Arguments from `[tool.cugen]` of the current folder."""
    project: Project | None = read(Path.cwd())
    if project is None:
        raise ConfigError("pyproject.toml has no [tool.cugen]; add one, or give the hook `args`")
    output = ("-o", os.path.relpath(project.output)) if name == "check" else ()
    return [*output, *project.options, *map(os.path.relpath, project.specs)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
