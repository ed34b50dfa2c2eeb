"""The YAML 1.2 parse tree of a spec file, with source locations.

Built from PyYAML's events, with scalars resolved by the core schema instead of YAML 1.1, and with depth, size and
aliases bounded while parsing. Tags are rejected: a spec never constructs objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NoReturn

import yaml

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Span
from cugen.spec.parse import core_schema, idioms
from cugen.spec.parse.keys import MAX_REQUIREMENTS, MAX_STATEMENTS
from cugen.spec.parse.source import Source, scalar_text
from cugen.spec.parse.syntax import Text

MAX_BYTES = 1 << 20  # of a file
MAX_DEPTH = 32  # of nested mappings and lists
MAX_NODES = 300_000  # of a file, aliases expanded
MAX_KEYS = 512  # of a mapping, such as params; a kernel of CUDA 12.0 and older has room for 512 pointers
MAX_DOCUMENTS = 256  # of a file
# Items of the lists under these keys, with the code and the cure where there are more; the rest of the file isn't read.
LISTS = {
    "compute": (MAX_STATEMENTS, "CG1106", "split the spec into several kernels"),
    "require": (MAX_REQUIREMENTS, "CG1004", "join conditions by `and`"),
}

# Control characters, line breaks of YAML 1.1 that 1.2 doesn't have, bidirectional formatting characters, surrogates
# and noncharacters.
_FORBIDDEN = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
    "|[\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


@dataclass(frozen=True, slots=True)
class YamlScalar:
    """A scalar: `value` is resolved by the core schema, `string` its text, `style` its quote or block indicator."""

    value: core_schema.PlainValue
    string: str
    style: str
    span: Span
    source: Source = field(compare=False, repr=False)
    start: int = field(compare=False)
    end: int = field(compare=False)
    replaced: Text | None = field(default=None, compare=False)
    size: int = 1

    @property
    def text(self) -> Text:
        """The scalar's text with the source position of each character."""
        if self.replaced is not None:
            return self.replaced
        return scalar_text(self.source, self.string, self.style, self.start, self.end)

    def text_up_to(self, count: int) -> Text:
        """The first `count` characters of the text: a limit is checked before a position is computed for each."""
        if self.replaced is not None:
            return Text(self.replaced.value[:count], self.replaced.positions[: count + 1])
        return scalar_text(self.source, self.string[:count], self.style, self.start, self.end)


@dataclass(frozen=True, slots=True)
class YamlSequence:
    """A list. `size` counts its nodes, itself included and aliases expanded."""

    items: tuple[YamlNode, ...]
    span: Span
    size: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key: value` pair of a mapping."""

    key: YamlScalar
    value: YamlNode

    @property
    def name(self) -> str:
        """The text of the key."""
        return self.key.string


@dataclass(frozen=True, slots=True)
class YamlMapping:
    """A mapping with unique keys. `size` counts its nodes, itself included and aliases expanded."""

    entries: tuple[Entry, ...]
    span: Span
    size: int = 1

    def get(self, name: str) -> Entry | None:
        """The entry of a key, or None."""
        return next((entry for entry in self.entries if entry.name == name), None)


YamlNode = YamlScalar | YamlSequence | YamlMapping


class _ParsingStopped(Exception):
    """Parsing stops after the error that was just reported."""


def decode(content: bytes, report: Reporter) -> str | None:
    """Decodes UTF-8, with or without a byte order mark, of at most MAX_BYTES; None after reporting an error."""
    if len(content) > MAX_BYTES:
        report.error(
            "CG1004",
            f"the file has {len(content)} bytes; a spec has at most {MAX_BYTES}",
            Span(0, 0, 0, 0),
            help="put large tables into a .npy file beside the spec and name it under `values`",
        )
        return None
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8")
        line, column = Source.of(before).position(len(before))
        report.error(
            "CG1002",
            f"the file isn't UTF-8: byte 0x{content[error.start]:02x} at offset {error.start}",
            Span(line, column, line, column + 1),
            help="save the file as UTF-8",
        )
        return None


def printable(text: str) -> str:
    """The text with forbidden characters replaced, safe to print on a terminal."""
    return _FORBIDDEN.sub("\ufffd", text)


def parse(text: str, report: Reporter) -> list[YamlNode]:
    """The documents of a file; after an error, those parsed before it."""
    if len(text) > MAX_BYTES:
        decode(text.encode("utf-8", "replace"), report)
        return []
    text = text.removeprefix("\ufeff")
    source = Source.of(text)
    for match in list(_FORBIDDEN.finditer(text))[:20]:
        report.error(
            "CG1003",
            f"the character U+{ord(match[0]):04X} isn't allowed in a spec",
            source.span(match.start(), match.end()),
            label="here",
            help="delete it; control and bidirectional formatting characters aren't allowed in a spec",
        )
    if report.failed:
        return []
    composer = _Composer(source, report)
    try:
        return composer.documents()
    except _ParsingStopped:
        return []
    except yaml.MarkedYAMLError as error:
        _report_syntax(error, source, report)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML raises these two builtin errors for out-of-range numbers in escapes and directives.
        report.error(
            "CG1005", f"this isn't YAML: {error}", source.span(0, 0), help="check numbers in escapes and directives"
        )
    return []


def _report_syntax(error: yaml.MarkedYAMLError, source: Source, report: Reporter) -> None:
    problem = (error.problem or error.context or "it can't be read").replace("\\t", "a tab")
    start_mark = error.context_mark
    # A missing colon, or an unclosed quote or bracket, is detected only further down.
    is_late = "expected ':'" in problem or "stream" in problem
    mark = start_mark if start_mark and is_late else error.problem_mark or start_mark
    last = max(0, len(source.text.rstrip()) - 1)
    offset = min(mark.index, last) if mark else 0
    notes = (f"{error.context}, which begins in line {start_mark.line + 1}",) if error.context and start_mark else ()
    report.error(
        "CG1005",
        f"this isn't YAML: {problem}",
        source.span(offset, offset + 1),
        label="here",
        notes=notes,
        help=_syntax_help(problem, source.text, offset),
    )


def _syntax_help(problem: str, text: str, offset: int) -> str:
    if "a tab" in problem or text[offset : offset + 1] == "\t":
        return "indent with spaces; YAML allows no tabs there"
    if "expected ':'" in problem:
        return "write `key: value`, with a blank after the colon, and put texts of several lines after `|`"
    if "stream" in problem:
        return "close what is opened here"
    if "mapping values" in problem:
        line = text[text.rfind("\n", 0, offset) + 1 : offset]
        statement = line.partition(": ")[2]
        foreign = idioms.head(statement, 0)
        instead = "; a choice is `a if condition else b`" if " ? " in line else f"; {foreign[1]}" if foreign else ""
        return f"put text that holds `: ` between quotes, or write it as a block after `|`{instead}"
    if "cannot start any token" in problem:
        return "put the text between quotes"
    if "directive" in problem or "YAML document" in problem:
        return "remove the line that begins with `%`; a spec is YAML 1.2"
    return "check brackets, quotes and indentation from here upwards"


def _offsets(event: yaml.Event) -> tuple[int, int]:
    """The start and end offsets of an event; events of a scanned text have both marks."""
    start, end = event.start_mark, event.end_mark
    return (start.index if start else 0, end.index if end else 0)


class _Composer:
    """Composes nodes from PyYAML's events."""

    def __init__(self, source: Source, report: Reporter) -> None:
        self._source = source
        self._report = report
        self._events: Iterator[yaml.Event] = yaml.parse(source.text, Loader=yaml.SafeLoader)
        self._anchors: dict[str, YamlNode] = {}
        self._nodes = 0

    def documents(self) -> list[YamlNode]:
        result: list[YamlNode] = []
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if len(result) == MAX_DOCUMENTS:
                    span = self._source.span(*_offsets(event))
                    message = f"the file has more than {MAX_DOCUMENTS} documents"
                    self._reject("CG1004", message, span, "split it into several files")
                self._anchors = {}
                node = self._node(next(self._events), 0)
                if isinstance(node, YamlScalar) and node.start == node.end:
                    # An empty document has no extent of its own, and may start after the last line.
                    node = replace(node, span=self._source.span(*_offsets(event)))
                result.append(node)
        return result

    def _node(self, event: yaml.Event, depth: int, key: str = "") -> YamlNode:
        """The node that starts with an event; `key` is that of a mapping's value."""
        start, end = _offsets(event)
        span = self._source.span(start, end)
        self._check_limits(span, depth)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, span)
        self._check_tag(event, span)
        node: YamlNode
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event, span)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(span, depth, key)
        else:
            node = self._mapping(span, depth)
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _check_limits(self, span: Span, depth: int, more: int = 1) -> None:
        self._nodes += more
        if depth > MAX_DEPTH:
            self._reject("CG1004", f"this is nested deeper than {MAX_DEPTH} levels", span, "flatten it")
        if self._nodes > MAX_NODES:
            help = "put large tables into a .npy file beside the spec and name it under `values`"
            self._reject("CG1004", f"the file has more than {MAX_NODES} values, aliases counted", span, help)

    def _reject(self, code: str, message: str, span: Span, help: str) -> NoReturn:
        self._report.error(code, message, span, label="here", help=help)
        raise _ParsingStopped

    def _check_tag(self, event: yaml.Event, span: Span) -> None:
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag not in (None, "!"):
            line, column = span.line, span.column
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self._report.error(
                "CG1007",
                f"the tag `{tag[:60]}` isn't allowed: a spec has plain data only",
                Span(line, column, line, column + 1),
                label="tagged value",
                help="remove the tag",
            )

    def _alias(self, event: yaml.AliasEvent, span: Span) -> YamlNode:
        node = self._anchors.get(event.anchor or "")
        if node is None:
            help = f"write `&{event.anchor}` before the value to repeat, earlier in the document"
            self._reject("CG1008", f"there is no anchor `{event.anchor}`", span, help)
        self._check_limits(span, 0, node.size)
        return node

    def _scalar(self, event: yaml.ScalarEvent, span: Span) -> YamlScalar:
        style = event.style or ""
        forbidden = _FORBIDDEN.search(event.value)
        if forbidden is not None:
            self._report.error(
                "CG1003",
                f"an escape sequence encodes the character U+{ord(forbidden[0]):04X}, which isn't allowed in a spec",
                span,
                label="in this text",
                help="remove the escape",
            )
        value = core_schema.resolve(event.value) if not style and event.tag != "!" else event.value
        return YamlScalar(value, event.value, style, span, self._source, *_offsets(event))

    def _sequence(self, span: Span, depth: int, key: str) -> YamlSequence:
        items: list[YamlNode] = []
        size = 1
        limit, code, help = LISTS.get(key, (MAX_NODES, "CG1004", ""))
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
            if len(items) > limit:
                self._reject(code, f"`{key}` has more than {limit} items", items[-1].span, help)
            size += items[-1].size
        return YamlSequence(tuple(items), self._span_to(span, event), size)

    def _mapping(self, span: Span, depth: int) -> YamlMapping:
        entries: list[Entry] = []
        size = 1
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if len(entries) == MAX_KEYS:
                help = "split the spec into several kernels"
                self._reject("CG1004", f"this mapping has more than {MAX_KEYS} keys", key.span, help)
            name = key.string if isinstance(key, YamlScalar) else ""
            value = self._node(next(self._events), depth + 1, name)
            size += key.size + value.size
            if isinstance(key, YamlScalar) and key.string == "<<" and not key.style:
                entries += self._merged(key, value)
            elif isinstance(key, YamlScalar):
                entries.append(Entry(key, value))
            else:
                self._report.error(
                    "CG1009", "a key is a name, not a list or a mapping", key.span, label="key", help="write a name"
                )
        return YamlMapping(unique(entries, self._report), self._span_to(span, event), size)

    def _merged(self, key: YamlScalar, value: YamlNode) -> tuple[Entry, ...]:
        """Reports a merge key of YAML 1.1; returns its entries, so that no missing keys are reported as well."""
        help = "write the keys out, or repeat whole values by an alias: `shape: *dims`"
        self._report.error("CG1009", "YAML 1.2 has no merge keys", key.span, label="merge key", help=help)
        return value.entries if isinstance(value, YamlMapping) else ()

    def _span_to(self, span: Span, event: yaml.Event) -> Span:
        line, column = self._source.position(_offsets(event)[1])
        return Span(span.line, span.column, line, column)


def unique(entries: list[Entry], report: Reporter) -> tuple[Entry, ...]:
    """The entries of a mapping with duplicate keys reported and removed."""
    first: dict[str, Entry] = {}
    for entry in entries:
        if entry.name in first:
            report.error(
                "CG1006",
                f"the key `{entry.name}` is given twice",
                entry.key.span,
                key=entry.name,
                label="second time",
                notes=(f"first given in line {first[entry.name].key.span.line}",),
                help="keep one of the two",
            )
        else:
            first[entry.name] = entry
    return tuple(first.values())
