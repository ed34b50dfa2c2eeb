"""Explain a diagnostic code: the cause, a spec that causes it, and a corrected spec."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TextIO

from cugen.cli.failures import DONE, wrong_call
from cugen.cli.text.terminal import has_colour, paint
from cugen.emit.resources import explanations
from cugen.spec.nearest import did_you_mean

_INLINE_CODE = re.compile(r"`([^`]+)`")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "code", metavar="CODE", nargs="?", help="diagnostic code such as CG1048 (default: list all codes)"
    )


def execute(args: argparse.Namespace) -> int:
    known = explanations()
    if args.code is None:
        for path in known.values():
            with path.open(encoding="utf-8") as page:
                print(page.readline().removeprefix("#").strip())
        return DONE
    code = _normal(args.code)
    if code not in known:
        raise wrong_call(f"unknown code `{args.code}`", did_you_mean(code, known, what="codes"))
    print(_styled(known[code].read_text(encoding="utf-8"), sys.stdout), end="")
    return DONE


def _normal(code: str) -> str:
    """Normalises pasted codes to `CG1048`: `cg1048`, `1048`, `error[CG1048]:`."""
    code = code.strip().upper().removeprefix("ERROR").strip("[]: ")
    return f"CG{code}" if code.isdigit() else code


def _styled(text: str, stream: TextIO) -> str:
    """Markdown unchanged, or styled for a terminal, without code fences."""
    if not has_colour(stream):
        return text
    lines = []
    inside = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif inside:
            lines.append(f"    {paint(line, 'green', stream)}" if line else "")
        elif line.startswith("#"):
            lines.append(paint(line.lstrip("# "), "bold", stream))
        else:
            lines.append(_INLINE_CODE.sub(lambda code: paint(code[1], "green", stream), line))
    return "\n".join(lines) + "\n"
