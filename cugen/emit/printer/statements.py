"""Prints the sections of a plan where a family's template places them, and proves that nothing changed places.

Five functions are the template's: `body` prints a section, `barrier` one that synchronises, `function_call` one as the
call of a function, `loop` and `branch` print a loop's or a branch's head round what the template places inside. Every
statement carries a mark. When the template is done, the sequence and nesting of the marks must be the plan's: two
sections that changed places are an error, not another program. A call carries the marks of the function's statements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import TypeVar

import sympy

from cugen.emit.printer.nodes import NodePrinter
from cugen.emit.printer.pipelines import HEADER, pipeline_statement
from cugen.plan import nodes
from cugen.plan.memory import Start
from cugen.plan.nodes import For, FunctionCall, If, Node, Section
from cugen.plan.pipeline_nodes import PipelineNode
from cugen.plan.symbols import integer
from cugen.plan.traversal.sections import is_synchronising
from cugen.plan.traversal.shadowing import shadowing
from cugen.plan.traversal.usage import free_symbols

_MARK = re.compile("\x03([0-9]+|[)|])\x04")
_EMPTY = "\x03-\x04"  # a section without nodes: its line goes
_CLOSE = "\x03)\x04"
_ELSE = "\x03|\x04"
_EMPTY_LINE = re.compile(rf"^(?:[ ]|\x01[^\x02]*\x02)*{_EMPTY}[ ]*\n?", re.MULTILINE)  # \x01 … \x02: provenance's mark
_INDENT = "    "
_Opened = TypeVar("_Opened", For, If)


class EmissionError(AssertionError):
    """The printed text differs from the plan: a bug in a template."""


class StatementPrinter:
    """The five functions, for one kernel; `printed` are the nodes that they were given, by the numbers of the marks,
    `called` the functions of the kernel's calls, by their names."""

    def __init__(self, printer: NodePrinter) -> None:
        self.printer = printer
        self.printed: list[Node] = []
        self.called: dict[str, FunctionCall] = {}

    def functions(self) -> dict[str, Callable[..., str]]:
        """By the names that templates call them."""
        return {
            "body": self.body,
            "barrier": self.barrier,
            "function_call": self.function_call,
            "loop_over": self.loop,
            "branch": self.branch,
        }

    def body(self, section: Section) -> str:
        """All statements of a section. EmissionError for one with a barrier, which templates place themselves."""
        if any(map(is_synchronising, section.body)):
            raise EmissionError(f"the template prints the barrier in section {section.name} without showing it")
        return self.opened(section) + self._nodes(section.body)

    def barrier(self, section: Section) -> str:
        """A section that synchronises: barriers, waits for asynchronous copies, and what goes with them."""
        return self.opened(section) + self._nodes(section.body)

    def function_call(self, section: Section) -> str:
        """A section of definitions as the call of the function that has them."""
        if not isinstance(section, FunctionCall):
            raise EmissionError(f"section {section.name} is no function's call")
        if self.called.setdefault(section.function, section) != section:
            raise EmissionError(f"function {section.function} would have other definitions in section {section.name}")
        marks = "".join(map(self._mark, section.body))
        for node in section.definitions:
            self.printer.declared_type(node.index)
        results = ", ".join(result.name for result in section.results)
        arguments = ", ".join(name.name for name in parameters_of(section))
        return f"{self.opened(section)}{marks}const auto [{results}] = {section.function}({arguments});"

    def loop(self, section: Section, caller: Callable[[Sections], str]) -> str:
        """The one loop of a section, with the sections of its body where the template has them."""
        node = self._only(section, For)
        head = self._head(node)
        return f"{self.opened(section)}{head}\n{_indented(caller(_sections_of(node.body, section)))}\n{_CLOSE}}}\n"

    def branch(self, section: Section, caller: Callable[[Sections], str]) -> str:
        """The one branch of a section. An else of sections is the template's as well, by their own names; else it is
        printed whole."""
        node = self._only(section, If)
        text = f"{self.opened(section)}{self._condition(node)}\n{_indented(caller(_sections_of(node.then, section)))}\n"
        if node.orelse:
            if all(isinstance(part, Section) for part in node.orelse):
                orelse = caller(_sections_of(node.orelse, section))
            else:
                orelse = self.body(Section(section.name, node.orelse))
            text += f"{_ELSE}}} else {{\n{_indented(orelse)}\n"
        return f"{text}{_CLOSE}}}\n"

    def opened(self, section: Section) -> str:
        """What goes before a section's text; nothing, but for who asks where text comes from."""
        return ""

    @staticmethod
    def _only(section: Section, kind: type[_Opened]) -> _Opened:
        match section.body:
            case (node,) if isinstance(node, kind):
                return node
        kinds = ", ".join(type(node).__name__ for node in section.body) or "nothing"
        raise EmissionError(f"section {section.name} should be one {kind.__name__}, it has {kinds}")

    def _nodes(self, body: tuple[Node, ...]) -> str:
        texts: list[str] = []
        for is_constant, run in groupby(body, _is_constant):
            if is_constant:
                texts.append(self._constants(tuple(run)))
            else:
                texts += (text for node in run for text in self._lines(node))
        return "\n".join(texts) or _EMPTY

    def _constants(self, run: tuple[Node, ...]) -> str:
        """`constexpr int BM = 128, BN = 64;`."""
        marks = "".join(map(self._mark, run))
        values = [f"{node.index.name} = {node.index.definition}" for node in run if isinstance(node, nodes.Define)]
        return f"{marks}constexpr int {', '.join(values)};"

    def _lines(self, node: Node) -> Iterator[str]:
        match node:
            case Section():
                for part in node.body:
                    yield from self._lines(part)
            case For():
                yield f"{self._head(node)}\n{_indented(self._nodes(node.body))}\n{_CLOSE}}}"
            case If():
                text = f"{self._condition(node)}\n{_indented(self._nodes(node.then))}\n"
                if node.orelse:
                    text += f"{_ELSE}}} else {{\n{_indented(self._nodes(node.orelse))}\n"
                yield f"{text}{_CLOSE}}}"
            case _:
                mark = self._mark(node)
                remarks = [f"// {remark}" for remark in self.printer.remarks(node)]
                lines = list(self._statement(node))
                lines[_accessing_line(node) : _accessing_line(node)] = remarks
                if lines:
                    yield "\n".join([mark + lines[0], *lines[1:]])
                else:
                    yield mark + _EMPTY

    def _head(self, node: For) -> str:
        mark = self._mark(node)
        lines = [f"// {remark}" for remark in self.printer.remarks(node)]
        if node.loop.unroll:
            lines.append("#pragma unroll")
        elif node.loop.rolled:
            lines.append("#pragma unroll 1")
        elif node.loop.unroll_by:
            lines.append(f"#pragma unroll {node.loop.unroll_by}")
        return mark + "\n".join([*lines, f"{self.printer.loop(node)} {{"])

    def _condition(self, node: If) -> str:
        mark = self._mark(node)
        lines = [f"// {remark}" for remark in self.printer.remarks(node)]
        return mark + "\n".join([*lines, f"if ({self.printer.condition(node.condition)}) {{"])

    def _mark(self, node: Node) -> str:
        self.printed.append(node)
        return f"\x03{len(self.printed) - 1}\x04"

    def _statement(self, node: Node) -> tuple[str, ...]:
        """The lines of a node without children."""
        printer = self.printer
        match node:
            case nodes.Define():
                return () if node.then is not None else (f"const {printer.definition(node.index)};",)
            case Start():
                return (f"{printer.start(node)};",)
            case nodes.Let():
                return (f"{printer.let(node)};",)
            case nodes.Load():
                return (f"{printer.load(node)};",)
            case nodes.Store():
                return (f"{printer.store(node)};",)
            case nodes.Accumulate():
                return (f"{printer.accumulate(node)};",)
            case nodes.AtomicAdd():
                return (f"{printer.atomic_add(node)};",)
            case nodes.LoadMatrix():
                return (f"{printer.load_matrix(node)};",)
            case nodes.StoreMatrix():
                return (f"{printer.store_matrix(node)};",)
            case nodes.ConvertFragment():
                return (f"{printer.convert_fragment(node)};",)
            case nodes.Mma():
                return (f"{printer.mma(node)};",)
            case nodes.Copy():
                return (f"{printer.copy(node)};",)
            case nodes.CommitCopies():
                return ("__pipeline_commit();",)
            case nodes.AwaitCopies():
                return (f"__pipeline_wait_prior({printer.integer(integer(node.pending))});",)
            case nodes.FetchBlockId():
                return (f"{printer.fetch_block_id(node)};",)
            case nodes.CountArrival():
                return ("__threadfence();", f"{printer.count_arrival(node)};", "__threadfence();")
            case nodes.LoadBlockId():
                return (f"{printer.load_block_id(node)};",)
            case nodes.ReleaseFlag():
                return ("__threadfence();", f"{printer.release_flag(node)};")
            case nodes.AcquireSpinWait():
                return (f"while ({printer.spin_wait(node)})", f"{_INDENT}__nanosleep(32);", "__threadfence();")
            case nodes.Assign():
                return (f"{printer.assign(node)};",)
            case nodes.Declare():
                return (f"{printer.declare(node)};",)
            case nodes.Barrier():
                return ("__syncthreads();",)
            case nodes.NamedBarrier():
                return (f"{printer.named_barrier(node)};",)
            case nodes.ClusterBarrier():
                return (f"cluster.{node.call}();",)
            case nodes.Comment():
                return (f"// {node.text}",)
            case nodes.Assume():
                return (f"__builtin_assume({printer.condition(node.guard)});",)
            case nodes.ReturnUnless():
                return (f"if ({printer.negated(node.guard)})", f"{_INDENT}return;")
        if isinstance(node, PipelineNode):
            printer.headers.setdefault(HEADER)
            return (pipeline_statement(node, printer),)
        raise EmissionError(f"no statement for a {type(node).__name__}")


def _accessing_line(node: Node) -> int:
    """Which line of a statement has its access: before a flag or a counter, a fence."""
    return 1 if isinstance(node, nodes.ReleaseFlag | nodes.CountArrival) else 0


def checked(text: str, printer: StatementPrinter, body: tuple[Node, ...], kernel: str) -> str:
    """The text without marks. EmissionError unless its statements have the order and nesting of `body`, whose names
    are declared once in nested blocks."""
    if (name := next(shadowing(body), None)) is not None:
        raise EmissionError(f"{kernel}: {name} is declared in a block whose enclosing block has a {name}")
    planned = list(_events(body))
    rendered = [printer.printed[int(mark)] if mark.isdigit() else mark for mark in _MARK.findall(text)]
    for number, (wanted, printed) in enumerate(zip(planned, rendered, strict=False)):
        if not _is_same(wanted, printed):
            raise EmissionError(
                f"{kernel}: the template prints {_named(printed)} as statement {number + 1}, where the plan has"
                f" {_named(wanted)}"
            )
    if len(planned) != len(rendered):
        first = _named((planned if len(planned) > len(rendered) else rendered)[min(len(planned), len(rendered))])
        what = "leaves out" if len(planned) > len(rendered) else "prints twice"
        raise EmissionError(f"{kernel}: the template {what} {first}")
    return _EMPTY_LINE.sub("", _MARK.sub("", text))


def _events(body: tuple[Node, ...]) -> Iterator[Node | str]:
    for node in body:
        yield node
        match node:
            case For():
                yield from _events(node.body)
                yield ")"
            case If():
                yield from _events(node.then)
                if node.orelse:
                    yield "|"
                    yield from _events(node.orelse)
                yield ")"


def _is_same(planned: Node | str, printed: Node | str) -> bool:
    """Statements by identity where they have one, else by value; loops and branches by their heads."""
    match planned, printed:
        case For(), For():
            return planned.loop == printed.loop
        case If(), If():
            return planned.condition == printed.condition
    return planned == printed


def _named(event: Node | str) -> str:
    if isinstance(event, str):
        return {")": "the end of a loop or a branch", "|": "an else"}[event]
    name = type(event).__name__
    match event:
        case nodes.Define():
            return f"{name} {event.index.name}"
        case nodes.Load() | nodes.Let() | nodes.Assign():
            return f"{name} {getattr(event.local, 'name', '')}".rstrip()
        case nodes.Store() | nodes.Accumulate() | nodes.AtomicAdd():
            return f"{name} {event.access.array.symbol}"
        case nodes.Copy():
            return f"{name} to {event.target.array.symbol}"
        case For():
            return f"loop over {event.loop.index.name}"
    return name


def parameters_of(call: FunctionCall) -> tuple[sympy.Symbol, ...]:
    """What the definitions of a function use, but for those that come with the launch."""
    defined = {node.index.symbol for node in call.definitions}
    used = {name for name in free_symbols(call.body) - defined if "." not in name.name}
    return tuple(sorted(used, key=str))


def _is_constant(node: Node) -> bool:
    return isinstance(node, nodes.Define) and node.index.constant


def _sections_of(body: tuple[Node, ...], section: Section) -> Sections:
    unnamed = [type(node).__name__ for node in body if not isinstance(node, Section)]
    if unnamed:
        raise EmissionError(f"{', '.join(unnamed)} in section {section.name} has no section of its own")
    return Sections(tuple(node for node in body if isinstance(node, Section)))


class Sections:
    """Sections for a template: `step.load_fragments`, or all of them in order. One that isn't there is empty."""

    __slots__ = ("_sections",)

    def __init__(self, sections: tuple[Section, ...]) -> None:
        self._sections = {section.name: section for section in sections}
        if len(self._sections) < len(sections):
            raise EmissionError(f"two sections have one name among {', '.join(section.name for section in sections)}")

    def __getitem__(self, name: str) -> Section:
        return self._sections.get(name, Section(name, ()))

    def __iter__(self) -> Iterator[Section]:
        return iter(self._sections.values())


def _indented(text: str) -> str:
    lines = text.removesuffix("\n").split("\n")
    return "\n".join(f"{_INDENT}{line}" if line and line != _EMPTY else line for line in lines)
