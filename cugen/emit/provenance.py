"""Provenance of a .cu: the template line of each line, and the line of each access.

The source is rendered a second time with marks before every template line or every access, which are then removed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping

import jinja2

from cugen.emit.environment import environment, template_folder
from cugen.emit.layout import tidy_lines
from cugen.emit.printer.nodes import NodePrinter
from cugen.emit.printer.statements import StatementPrinter
from cugen.emit.source import render_raw
from cugen.plan.context import Context
from cugen.plan.kernel import Plan
from cugen.plan.memory import Access
from cugen.plan.nodes import Copy, Section
from cugen.plan.remarks import Remarks
from cugen.plan.traversal.walking import accesses, walk_nodes

_MARK = re.compile("\x01([^\x02]*)\x02")


class _MarkingLoader(jinja2.FileSystemLoader):
    """Loads templates with a mark before each line that prints something."""

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        text, path, fresh = super().get_source(environment, template)
        lines = []
        in_comment = False
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            code = line.lstrip()
            if code.startswith("{% call"):  # prints a loop's head
                line = code
            is_printed = code.startswith("{% call") or not code.startswith(("{%", "{#"))
            marked = not in_comment and line.strip() and is_printed
            lines.append(f"\x01templates/{template}:{number}\x02{line}" if marked else line)
            in_comment = ("{#" in line or in_comment) and "#}" not in line
        return "".join(lines), path, fresh


class _NamingPrinter(StatementPrinter):
    """Prints each section after a mark with its name."""

    def opened(self, section: Section) -> str:
        return f"\x01 {section.name}\x02" if section else ""


def provenance(context: Context, plan: Plan, remarks: Remarks | None = None) -> Mapping[int, str]:
    """Template line, section and spec key of each line of the source (1-based)."""
    env = environment(plan.templates, _MarkingLoader(template_folder()))
    raw = render_raw(env, context, plan, remarks or Remarks(), statements=_NamingPrinter).source
    lines: list[tuple[str, str]] = []
    mark = ""
    for line in raw.splitlines():
        for name in _MARK.findall(line):
            mark = mark.partition(" ")[0] + name if name.startswith(" ") else name
        text = _MARK.sub("", line)
        lines.append((text, mark if text.strip() else ""))
    return {
        number: f"{mark}, key {_key(context, line)}" for number, (line, mark) in enumerate(tidy_lines(lines), 1) if mark
    }


class _MarkingPrinter(NodePrinter):
    """Prints each access after a mark with its identity."""

    def lvalue(self, access: Access) -> str:
        return f"\x01{access.serial}\x02{super().lvalue(access)}"


def access_lines(context: Context, plan: Plan, remarks: Remarks | None = None) -> Mapping[int, int]:
    """Line of the source (1-based) of each access, by its number in the plan, over all kernels in order."""
    marked = render_raw(environment(plan.templates), context, plan, remarks or Remarks(), _MarkingPrinter).source
    lines = marked.splitlines()
    # Of lines with accesses, `tidy_lines` changes whitespace only: their other characters are counted.
    line_of: defaultdict[str, list[int]] = defaultdict(list)
    for number, (text, origin) in enumerate(
        tidy_lines([(_MARK.sub("", line), str(n)) for n, line in enumerate(lines)]), 1
    ):
        line_of[origin] += [number for _ in "".join(text.split())]
    line_of_access = {
        int(mark[1]): line_of[str(n)][len("".join(_MARK.sub("", line[: mark.start()]).split()))]
        for n, line in enumerate(lines)
        for mark in _MARK.finditer(line)
    }
    # Line tables have both accesses of an asynchronous copy, which is one call, on the first line of its statement.
    for node in (node for kernel in plan.kernels for node in walk_nodes(kernel.body)):
        if isinstance(node, Copy) and node.asynchronous:
            line_of_access[node.source.serial] = line_of_access[node.target.serial]
    planned = [access for kernel in plan.kernels for access in accesses(kernel.body)]
    return {number: line_of_access[access.serial] for number, access in enumerate(planned)}


def _key(context: Context, line: str) -> str:
    """Spec key of a line: the array it accesses or declares, else `compute`."""
    for declared in context.spec.arrays:
        symbol = re.escape(context.arrays[declared.name].symbol)
        if not declared.is_temporary and re.search(rf"\b{symbol}s?(?=\[|;| =)", line):
            return f"arrays.{declared.name}"
    return "compute"
