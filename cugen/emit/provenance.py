"""Provenance of a .cu: the template line of each line, and the lines of each access and statement.

The source is rendered again with marks at every template line, access or statement, which are then removed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import jinja2

from cugen.emit.environment import environment, template_folder
from cugen.emit.layout import tidy_lines
from cugen.emit.printer.nodes import NodePrinter
from cugen.emit.printer.statements import StatementPrinter
from cugen.emit.source import render_raw
from cugen.plan.context import Context
from cugen.plan.kernel import Plan
from cugen.plan.memory import Access
from cugen.plan.nodes import Copy, For, If, Node, Section
from cugen.plan.pipeline_nodes import TensorLoad, TensorStore
from cugen.plan.remarks import Remarks
from cugen.plan.traversal.walking import accesses, walk_nodes

_MARK = re.compile("\x01([^\x02]*)\x02")
_HEAD = "head"  # mark of the head of a loop or branch


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

    def lvalue(self, access: Access, shown: Access | None = None) -> str:
        return f"\x01{access.serial}\x02{super().lvalue(access, shown)}"


class _StatementMarkingPrinter(StatementPrinter):
    """Marks the begin and the end of each statement with the node's identity, and each head of a loop or branch, whose
    nodes the plan's body rebuilds, as such."""

    def _statement(self, node: Node) -> tuple[str, ...]:
        return _between_marks(str(id(node)), super()._statement(node))

    def _head(self, node: For) -> str:
        return self._marked_head(super()._head(node))

    def _condition(self, node: If) -> str:
        return self._marked_head(super()._condition(node))

    def _marked_head(self, text: str) -> str:
        *above, head = text.split("\n")
        return "\n".join([*above, *_between_marks(_HEAD, (head,))])


def _between_marks(name: str, lines: tuple[str, ...]) -> tuple[str, ...]:
    if not lines:
        return ()
    *inner, last = (f"\x01{name}\x02{lines[0]}", *lines[1:])
    return (*inner, f"{last[:-1]}\x01{name}\x02{last[-1:]}")


def statement_lines(context: Context, plan: Plan, remarks: Remarks | None = None) -> Mapping[int, range]:
    """Lines of the source (1-based) of each statement, and of each head of a loop or branch, by the node's `id`."""
    raw = render_raw(
        environment(plan.templates), context, plan, remarks or Remarks(), statements=_StatementMarkingPrinter
    ).source
    lines: dict[int, range] = {}
    heads: list[int] = []
    for name, line in _lines_of_marks(raw):
        if name == _HEAD:
            heads.append(line)
        else:
            lines[int(name)] = range(lines[int(name)].start if int(name) in lines else line, line + 1)
    planned = (node for kernel in plan.kernels for node in walk_nodes(kernel.body) if isinstance(node, For | If))
    for node, first, last in zip(planned, heads[::2], heads[1::2], strict=True):
        lines[id(node)] = range(first, last + 1)
    return lines


def access_lines(context: Context, plan: Plan, remarks: Remarks | None = None) -> Mapping[int, int]:
    """Line of the source (1-based) of each access, by its number in the plan, over all kernels in order."""
    marked = render_raw(environment(plan.templates), context, plan, remarks or Remarks(), _MarkingPrinter).source
    line_of_access = {int(name): line for name, line in _lines_of_marks(marked)}
    # Line tables have both accesses of an asynchronous copy, which is one call, on the first line of its statement.
    # That of an array with a tensor map is printed as arguments.
    for node in (node for kernel in plan.kernels for node in walk_nodes(kernel.body)):
        if isinstance(node, TensorStore):
            line_of_access[node.target.serial] = line_of_access[node.source.serial]
        elif isinstance(node, TensorLoad) or (isinstance(node, Copy) and node.asynchronous):
            line_of_access[node.source.serial] = line_of_access[node.target.serial]
    planned = [access for kernel in plan.kernels for access in accesses(kernel.body)]
    return {number: line_of_access[access.serial] for number, access in enumerate(planned)}


def _lines_of_marks(marked: str) -> Iterator[tuple[str, int]]:
    """The name of each mark, and the line of the source that it is in."""
    lines = marked.splitlines()
    # Of lines with marks, `tidy_lines` changes whitespace only: their other characters are counted.
    line_of: defaultdict[str, list[int]] = defaultdict(list)
    for number, (text, origin) in enumerate(
        tidy_lines([(_MARK.sub("", line), str(n)) for n, line in enumerate(lines)]), 1
    ):
        line_of[origin] += [number for _ in "".join(text.split())]
    for n, line in enumerate(lines):
        for mark in _MARK.finditer(line):
            yield mark[1], line_of[str(n)][len("".join(_MARK.sub("", line[: mark.start()]).split()))]


def _key(context: Context, line: str) -> str:
    """Spec key of a line: the array it accesses or declares, else `compute`."""
    for declared in context.spec.arrays:
        symbol = re.escape(context.arrays[declared.name].symbol)
        if not declared.is_temporary and re.search(rf"\b{symbol}s?(?=\[|;| =)", line):
            return f"arrays.{declared.name}"
    return "compute"
