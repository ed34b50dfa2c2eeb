"""A spec's file as YAML 1.2 nodes with positions.

PyYAML scans and parses; its YAML 1.1 reading of scalars isn't used. Nodes are made from its events, so that depth,
size and aliases are bounded while the file is read. Tags are refused: nothing in a spec makes an object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NoReturn

import yaml

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Span
from cugen.spec.parse import core_schema
from cugen.spec.parse.source import Source, scalar_text
from cugen.spec.parse.syntax import Text

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_NODES = 300_000

# Control characters, what YAML 1.1 but not 1.2 takes for a line break, marks that reorder text on the screen,
# surrogates and non-characters.
_FORBIDDEN = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
    "|[\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


@dataclass(frozen=True, slots=True)
class YamlScalar:
    """`value` is the scalar's meaning by the core schema; `string` its text; `style` is "" where it is unquoted."""

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
        """The scalar as a piece of text whose every character knows its place."""
        if self.replaced is not None:
            return self.replaced
        return scalar_text(self.source, self.string, self.style, self.start, self.end)


@dataclass(frozen=True, slots=True)
class YamlSequence:
    items: tuple[YamlNode, ...]
    span: Span
    size: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key: value` of a mapping; a key is its text."""

    key: YamlScalar
    value: YamlNode

    @property
    def name(self) -> str:
        return self.key.string


@dataclass(frozen=True, slots=True)
class YamlMapping:
    entries: tuple[Entry, ...]
    span: Span
    size: int = 1

    def get(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.name == name), None)


YamlNode = YamlScalar | YamlSequence | YamlMapping


class _Refused(Exception):
    """Reading can't go on after the finding that was just reported."""


def decode(content: bytes, report: Reporter) -> str | None:
    """The text of a file's bytes: UTF-8 with or without a byte order mark, at most MAX_BYTES."""
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
    """The text with every forbidden character replaced, safe to quote on a terminal."""
    return _FORBIDDEN.sub("\ufffd", text)


def parse(text: str, report: Reporter) -> list[YamlNode]:
    """The documents of a file; findings go to the report, and then what was read before them is returned."""
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
            help="delete it; control characters and marks that reorder text have no place in a spec",
        )
    if report.failed:
        return []
    composer = _Composer(source, report)
    try:
        return composer.documents()
    except _Refused:
        return []
    except yaml.MarkedYAMLError as error:
        _report_syntax(error, source, report)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML lets these two builtin errors escape for numbers in escapes and directives that are out of range.
        report.error(
            "CG1005", f"this isn't YAML: {error}", source.span(0, 0), help="check numbers in escapes and directives"
        )
    return []


def _report_syntax(error: yaml.MarkedYAMLError, source: Source, report: Reporter) -> None:
    problem = (error.problem or error.context or "it can't be read").replace("\\t", "a tab")
    begun = error.context_mark
    # A key without its colon, or a quote or bracket that nothing closes, is found out only further down.
    late = "expected ':'" in problem or "stream" in problem
    mark = begun if begun and late else error.problem_mark or begun
    last = max(0, len(source.text.rstrip()) - 1)
    at = min(mark.index, last) if mark else 0
    notes = (f"{error.context}, which begins in line {begun.line + 1}",) if error.context and begun else ()
    report.error(
        "CG1005",
        f"this isn't YAML: {problem}",
        source.span(at, at + 1),
        label="here",
        notes=notes,
        help=_syntax_help(problem, source.text, at),
    )


def _syntax_help(problem: str, text: str, at: int) -> str:
    if "a tab" in problem or text[at : at + 1] == "\t":
        return "indent with spaces; YAML allows no tabs there"
    if "expected ':'" in problem:
        return "write `key: value`, with a blank after the colon, and put texts of several lines after `|`"
    if "stream" in problem:
        return "close what is opened here"
    if "mapping values" in problem:
        return "put text that holds `: ` between quotes, or write it as a block after `|`"
    if "cannot start any token" in problem:
        return "put the text between quotes"
    if "directive" in problem or "YAML document" in problem:
        return "remove the line that begins with `%`; a spec is YAML 1.2"
    return "check brackets, quotes and indentation from here upwards"


def _offsets(event: yaml.Event) -> tuple[int, int]:
    """Where an event starts and ends in the text; every event of a scanned text has both marks."""
    start, end = event.start_mark, event.end_mark
    return (start.index if start else 0, end.index if end else 0)


class _Composer:
    """Makes nodes from PyYAML's events."""

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
                self._anchors = {}
                node = self._node(next(self._events), 0)
                if isinstance(node, YamlScalar) and node.start == node.end:
                    # An empty document has no place of its own, and may begin behind the last line.
                    node = replace(node, span=self._source.span(*_offsets(event)))
                result.append(node)
        return result

    def _node(self, event: yaml.Event, depth: int) -> YamlNode:
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
            node = self._sequence(span, depth)
        else:
            node = self._mapping(span, depth)
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _check_limits(self, span: Span, depth: int, more: int = 1) -> None:
        self._nodes += more
        if depth > MAX_DEPTH:
            self._refuse("CG1004", f"this is nested deeper than {MAX_DEPTH} levels", span, "flatten it")
        if self._nodes > MAX_NODES:
            cure = "put large tables into a .npy file beside the spec and name it under `values`"
            self._refuse("CG1004", f"the file has more than {MAX_NODES} values, aliases counted", span, cure)

    def _refuse(self, code: str, message: str, span: Span, cure: str) -> NoReturn:
        self._report.error(code, message, span, label="here", help=cure)
        raise _Refused

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
            cure = f"write `&{event.anchor}` before the value that it shall repeat, earlier in the document"
            self._refuse("CG1008", f"nothing is anchored as `{event.anchor}`", span, cure)
        self._check_limits(span, 0, node.size)
        return node

    def _scalar(self, event: yaml.ScalarEvent, span: Span) -> YamlScalar:
        style = event.style or ""
        bad = _FORBIDDEN.search(event.value)
        if bad is not None:
            self._report.error(
                "CG1003",
                f"an escape stands for the character U+{ord(bad[0]):04X}, which isn't allowed in a spec",
                span,
                label="in this text",
                help="remove the escape",
            )
        value = core_schema.resolve(event.value) if not style and event.tag != "!" else event.value
        return YamlScalar(value, event.value, style, span, self._source, *_offsets(event))

    def _sequence(self, span: Span, depth: int) -> YamlSequence:
        items: list[YamlNode] = []
        size = 1
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
            size += items[-1].size
        return YamlSequence(tuple(items), self._to(span, event), size)

    def _mapping(self, span: Span, depth: int) -> YamlMapping:
        entries: list[Entry] = []
        size = 1
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            value = self._node(next(self._events), depth + 1)
            size += key.size + value.size
            if isinstance(key, YamlScalar) and key.string == "<<" and not key.style:
                entries += self._merged(key, value)
            elif isinstance(key, YamlScalar):
                entries.append(Entry(key, value))
            else:
                self._report.error(
                    "CG1009", "a key is a name, not a list or a mapping", key.span, label="key", help="write a name"
                )
        return YamlMapping(unique(entries, self._report), self._to(span, event), size)

    def _merged(self, key: YamlScalar, value: YamlNode) -> tuple[Entry, ...]:
        """What a merge key of YAML 1.1 would bring in, so that nothing is reported as missing as well."""
        cure = "write the keys out, or repeat whole values by an alias: `shape: *dims`"
        self._report.error("CG1009", "YAML 1.2 has no merge keys", key.span, label="merge key", help=cure)
        return value.entries if isinstance(value, YamlMapping) else ()

    def _to(self, span: Span, event: yaml.Event) -> Span:
        line, column = self._source.position(_offsets(event)[1])
        return Span(span.line, span.column, line, column)


def unique(entries: list[Entry], report: Reporter) -> tuple[Entry, ...]:
    """The entries of a mapping without those whose key stood there before, which are findings."""
    first: dict[str, Entry] = {}
    for entry in entries:
        if entry.name in first:
            report.error(
                "CG1006",
                f"the key `{entry.name}` stands here twice",
                entry.key.span,
                key=entry.name,
                label="second time",
                notes=(f"it stands first in line {first[entry.name].key.span.line}",),
                help="keep one of the two",
            )
        else:
            first[entry.name] = entry
    return tuple(first.values())
