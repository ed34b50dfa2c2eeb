"""Where the text of a .cu comes from: which template line printed each line, and at which line each access stands.

The source is rendered once more with marks, before every line of every template or before every access; the marks say
where the text came from and are then taken out. Generation itself never pays for this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import accumulate

import jinja2

from cugen.emit.environment import environment, template_folder
from cugen.emit.layout import tidy, tidy_lines
from cugen.emit.printer.nodes import NodePrinter
from cugen.emit.source import render_raw
from cugen.plan.context import Context
from cugen.plan.kernel import Plan
from cugen.plan.memory import Access
from cugen.plan.nodes import Copy
from cugen.plan.remarks import Remarks
from cugen.plan.walking import accesses, walk_nodes

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


def provenance(context: Context, plan: Plan, remarks: Remarks | None = None) -> Mapping[int, str]:
    """For each line of the source (1-based), the template's line and the spec key that it came from."""
    env = environment()
    env.loader = _MarkingLoader(template_folder())
    lines: list[tuple[str, str]] = []
    for line in render_raw(env, context, plan, remarks or Remarks()).source.splitlines():
        marks = _MARK.findall(line)
        lines.append((_MARK.sub("", line), marks[-1] if marks else ""))
    return {
        number: f"{mark}, key {_key(context, line)}" for number, (line, mark) in enumerate(tidy_lines(lines), 1) if mark
    }


class _MarkingPrinter(NodePrinter):
    """Prints each access with a mark that holds its identity before it."""

    def place(self, access: Access) -> str:
        return f"\x01{id(access)}\x02{super().place(access)}"


def access_lines(context: Context, plan: Plan, remarks: Remarks | None = None) -> Mapping[int, int]:
    """The line of the source (1-based) at which each access begins; accesses by their number in the plan, through all
    kernels in the order of the source."""
    marked = render_raw(environment(), context, plan, remarks or Remarks(), _MarkingPrinter).source
    pieces = _MARK.split(marked)  # text, then mark and text by turns
    texts, marks = pieces[::2], pieces[1::2]
    # The last pass over the layout moves nothing but blanks.
    line_of = [
        number for number, line in enumerate(tidy("".join(texts)).splitlines(), 1) for _ in "".join(line.split())
    ]
    starts = accumulate(len("".join(text.split())) for text in texts)
    found = {int(mark): line_of[start] for mark, start in zip(marks, starts, strict=False)}
    # Compilers have both sides of a copy where its statement begins.
    for node in (node for kernel in plan.kernels for node in walk_nodes(kernel.body)):
        if isinstance(node, Copy):
            found[id(node.source)] = found[id(node.target)]
    planned = [access for kernel in plan.kernels for access in accesses(kernel.body)]
    return {number: found[id(access)] for number, access in enumerate(planned)}


def _key(context: Context, line: str) -> str:
    """The spec key that the line speaks of: the array that it names, else the statement."""
    for declared in context.spec.arrays:
        symbol = re.escape(context.arrays[declared.name].symbol)
        if not declared.is_temporary and re.search(rf"\b{symbol}s?(?=\[|;| =)", line):
            return f"arrays.{declared.name}"
    return "compute"
