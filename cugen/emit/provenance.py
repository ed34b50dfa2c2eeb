"""Which template line printed each line of a .cu, for the report of a compile failure.

The source is rendered once more with a mark before every line of every template; the marks say where a line came from
and are then taken out. Generation itself never pays for this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import jinja2

from cugen.emit.environment import environment, template_folder
from cugen.emit.layout import tidy_lines
from cugen.emit.source import render_raw
from cugen.plan.context import Context
from cugen.plan.ir import Plan

_MARK = re.compile("\x01([^\x02]*)\x02")


class _MarkingLoader(jinja2.FileSystemLoader):
    """Loads templates with a mark at the start of each line that prints something of its own."""

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        text, path, fresh = super().get_source(environment, template)
        lines = []
        in_comment = False
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            plain = not in_comment and line.strip() and not line.lstrip().startswith(("{%", "{#"))
            lines.append(f"\x01templates/{template}:{number}\x02{line}" if plain else line)
            in_comment = ("{#" in line or in_comment) and "#}" not in line
        return "".join(lines), path, fresh


def provenance(context: Context, plan: Plan) -> Mapping[int, str]:
    """For each line of the source (1-based), the template's line and the spec key that it came from."""
    env = environment()
    env.loader = _MarkingLoader(template_folder())
    lines: list[tuple[str, str]] = []
    for line in render_raw(env, context, plan).source.splitlines():
        marks = _MARK.findall(line)
        lines.append((_MARK.sub("", line), marks[-1] if marks else ""))
    return {
        number: f"{mark}, key {_key(context, line)}" for number, (line, mark) in enumerate(tidy_lines(lines), 1) if mark
    }


def _key(context: Context, line: str) -> str:
    """The spec key that the line speaks of: the array that it names, else the statement."""
    for declared in context.spec.arrays:
        symbol = re.escape(context.arrays[declared.name].symbol)
        if not declared.is_temporary and re.search(rf"\b{symbol}s?(?=\[|;| =)", line):
            return f"arrays.{declared.name}"
    return "compute"
