"""Source edits of a spec file: changes the row layout of a shared-memory tile and preserves every other byte."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cugen.spec.diagnostics import Reporter, SpecError
from cugen.spec.model import Memory, Spec
from cugen.spec.parse.nodes import Entry, YamlMapping, YamlNode, YamlScalar, parse
from cugen.spec.parse.source import Source
from cugen.spec.variants import Expanded, expand

_BETWEEN = r"(?:[ \t\r\n]|(?<=[ \t\r\n])#[^\r\n]*)*"
_REPEATED = re.compile(rf"{_BETWEEN}:{_BETWEEN}([&*])[^\s,\[\]{{}}]+")
_LINE_END = re.compile(r"\r|\n|\Z")
_BREAK = re.compile(r"\r\n|\r|\n")
_TO_LINE_END = re.compile(r"[ \t]*(,?)[ \t]*(?:(?<=[ \t,])#[^\r\n]*)?(?=\r|\n)")


class CannotEdit(Exception):
    """The file's notation for `memory` can't be changed by a local edit; the message is the reason."""


class EditMismatch(Exception):
    """The edited file doesn't parse to the intended specs: a bug in this module."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The row layout of a shared-memory tile: rows padded by `pad` elements, or columns permuted by an xor swizzle."""

    pad: int = 0
    swizzle: bool = False

    @staticmethod
    def of(memory: Memory) -> RowLayout:
        """The row layout of a declared placement."""
        return RowLayout(memory.pad, memory.swizzle)

    @property
    def entry(self) -> tuple[str, str]:
        """The YAML key and value of this layout."""
        return ("swizzle", "xor") if self.swizzle else ("pad", str(self.pad))

    def __str__(self) -> str:
        return ": ".join(self.entry)

    def apply_to(self, spec: Spec, array: str) -> Spec:
        """The spec with this layout for an array in shared memory."""
        memory = replace(spec.array(array).memory, space="shared", pad=self.pad, swizzle=self.swizzle)
        arrays = tuple(replace(a, memory=memory) if a.name == array else a for a in spec.arrays)
        return replace(spec, arrays=arrays)


def kernels_by_document(text: str) -> tuple[tuple[str, ...], ...]:
    """The kernel names of each document of a valid file; variants of one document share its lines."""
    report = Reporter("")
    documents = parse(text, report)
    return tuple(tuple(map(_name, expand(node, report))) if isinstance(node, YamlMapping) else () for node in documents)


def rewrite(
    text: str, changes: Mapping[tuple[int, str], RowLayout], load: Callable[[str], Sequence[Spec]]
) -> tuple[str, tuple[Spec, ...]]:
    """Changes row layouts, keyed by (document number, array name); returns the new text and its specs.

    `load` parses a text to specs. EditMismatch if those of the new text aren't the intended ones; CannotEdit if the
    file's notation allows no local edit.
    """
    intended = tuple(load(text))
    documents = kernels_by_document(text)
    for (document, array), rows in changes.items():
        text = set_row_layout(text, document, array, rows)
        kernels = documents[document]
        intended = tuple(rows.apply_to(spec, array) if spec.kernel in kernels else spec for spec in intended)
    try:
        specs = tuple(load(text))
    except SpecError as error:
        raise EditMismatch(f"the edited file is rejected: {error}") from error
    # Compares hashes, since NaN isn't equal to itself.
    if [spec.hash for spec in specs] != [spec.hash for spec in intended]:
        raise EditMismatch("the edited file means something else than it should")
    return text, specs


def set_row_layout(text: str, document: int, array: str, rows: RowLayout) -> str:
    """The text with the row layout of one array changed; documents count from 0. CannotEdit as for `rewrite`."""
    body = text.removeprefix("\ufeff")
    node = parse(body, Reporter(""))[document]
    if not isinstance(node, YamlMapping):
        raise CannotEdit("the document is no mapping")
    return text[: len(text) - len(body)] + _Editor(body, node).edited(array, rows)


def _name(expanded: Expanded) -> str:
    entry = expanded.document.get("kernel")
    return "" if entry is None or not isinstance(entry.value, YamlScalar) else entry.value.string + expanded.suffix


class _Editor:
    """Collects the replacements `(start, end, text)` of one document."""

    def __init__(self, text: str, document: YamlMapping) -> None:
        self.text, self.document = text, document
        self.source = Source.of(text)
        self.replacements: list[tuple[int, int, str]] = []

    def edited(self, array: str, rows: RowLayout) -> str:
        arrays = self._mapping(self._entry(self.document, "arrays"))
        declared = self._mapping(self._entry(arrays, array))
        if declared.get("memory") is None:
            self._insert(declared, f"memory: {{space: shared, {rows}}}")
        else:
            self._set_memory(self._entry(declared, "memory"), rows)
        text = self.text
        for start, end, replacement in sorted(self.replacements, reverse=True):
            text = text[:start] + replacement + text[end:]
        return text

    def _set_memory(self, entry: Entry, rows: RowLayout) -> None:
        memory = entry.value
        if isinstance(memory, YamlScalar):
            self._reject_variant(memory, "memory")
            self._reject_other_space(memory)
            if memory.style in ("|", ">"):
                raise CannotEdit(f"`memory` in line {entry.key.span.line} is a block of text")
            space = self.text[memory.start : memory.end]
            self.replacements.append((memory.start, memory.end, f"{{space: {space}, {rows}}}"))
            return
        mapping = self._mapping(entry)
        key, value = rows.entry
        opposite_key = "pad" if rows.swizzle else "swizzle"
        current, opposite = mapping.get(key), mapping.get(opposite_key)
        for name in ("space", key, opposite_key):
            if mapping.get(name) is not None:
                self._reject_variant(self._entry(mapping, name).value, name)
        self._reject_other_space(self._entry(mapping, "space").value)
        if current is not None and opposite is not None:
            raise CannotEdit(f"both `pad` and `swizzle` are given in line {current.key.span.line}; remove one of them")
        if current is not None:
            self._replace(current.value, value)
        elif opposite is not None:
            quote = opposite.key.style
            self._replace(opposite.key, f"{quote}{key}{quote}")
            self._replace(opposite.value, value)
        else:
            self._insert(mapping, str(rows))

    def _replace(self, node: YamlNode, replacement: str) -> None:
        if not isinstance(node, YamlScalar) or node.style in ("|", ">"):
            raise CannotEdit(f"line {node.span.line} holds no plain value")
        self.replacements.append((node.start, node.end, replacement))

    def _insert(self, mapping: YamlMapping, entry: str) -> None:
        """Appends an entry, in the mapping's style (block, flow, or flow with one entry per line)."""
        last = mapping.entries[-1]
        end = self._end(last)
        line_end = self._line_end(end)
        start = self._offset(mapping.span.line, mapping.span.column)
        indent = self._indent(last.key.start)
        if self.text[start] != "{":
            column = mapping.span.column - 1
            self.replacements.append((line_end, line_end, f"{self._break(line_end)}{' ' * column}{entry}"))
            return
        comma = _TO_LINE_END.match(self.text, end)
        if indent is None or comma is None:
            self.replacements.append((end, end, f", {entry}"))
            return
        # One entry per line: the trailing comment stays with the last entry.
        trailing = self.text[end:line_end] if comma[1] else f",{self.text[end:line_end]}"
        self.replacements.append((end, line_end, f"{trailing}{self._break(line_end)}{indent}{entry}{comma[1]}"))

    # Notations that an edit doesn't support

    def _entry(self, mapping: YamlMapping, name: str) -> Entry:
        entry = mapping.get(name)
        if entry is None:
            raise CannotEdit(f"the file has no literal key `{name}`")
        if (repeated := _REPEATED.match(self.text, entry.key.end)) is not None:
            what = "repeats a value by an alias" if repeated[1] == "*" else "has an anchor, which aliases may repeat"
            raise CannotEdit(f"`{name}` in line {entry.key.span.line} {what}")
        return entry

    def _mapping(self, entry: Entry) -> YamlMapping:
        if not isinstance(entry.value, YamlMapping):
            raise CannotEdit(f"`{entry.name}` in line {entry.key.span.line} is no mapping")
        return entry.value

    def _reject_variant(self, node: YamlNode, name: str) -> None:
        if isinstance(node, YamlScalar) and "$" in node.string:
            raise CannotEdit(f"`{name}` in line {node.span.line} comes from a variant: `{node.string}`")

    def _reject_other_space(self, node: YamlNode) -> None:
        if not isinstance(node, YamlScalar) or node.string != "shared":
            raise CannotEdit(f"line {node.span.line} has a memory space other than shared")

    # Offsets

    def _end(self, entry: Entry) -> int:
        """The offset after an entry's value, trailing comments excluded."""
        repeated = _REPEATED.match(self.text, entry.key.end)
        if repeated is not None and repeated[1] == "*":
            return repeated.end()
        node = entry.value
        end = node.end if isinstance(node, YamlScalar) else self._offset(node.span.end_line, node.span.end_column)
        # A block-style node ends at the start of the next token.
        while True:
            end = len(self.text[:end].rstrip())
            start = self._line_start(end)
            if start <= entry.key.end or not self.text[start:end].lstrip().startswith("#"):
                return end
            end = start

    def _offset(self, line: int, column: int) -> int:
        return self.source.line_starts[line - 1] + column - 1

    def _line_start(self, offset: int) -> int:
        return self.source.line_starts[bisect_right(self.source.line_starts, offset) - 1]

    def _line_end(self, offset: int) -> int:
        match = _LINE_END.search(self.text, offset)
        assert match is not None, "the pattern matches at the end of the text"
        return match.start()

    def _indent(self, offset: int) -> str | None:
        """The indentation of the first token of a line; None for a later token."""
        before = self.text[self._line_start(offset) : offset]
        return None if before.strip() else before

    def _break(self, offset: int) -> str:
        """The line break at an offset; at the end of the file, the file's first one."""
        match = _BREAK.match(self.text, offset) or _BREAK.search(self.text)
        return match[0] if match else "\n"
