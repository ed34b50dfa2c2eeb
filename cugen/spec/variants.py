"""`variants`: expands one document to a kernel per combination of values, like a build matrix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Span
from cugen.spec.nearest import did_you_mean
from cugen.spec.parse import core_schema
from cugen.spec.parse.keys import MAX_KERNELS
from cugen.spec.parse.names import name_problem
from cugen.spec.parse.nodes import Entry, YamlMapping, YamlNode, YamlScalar, YamlSequence, unique
from cugen.spec.parse.reading import describe, first_line, join, read_mapping, shorten, wrong_type
from cugen.spec.parse.syntax import Text

Value = int | float | str | bool

MAX_EXPANDED_NODES = 3_000_000  # YAML nodes of all variants of a document

_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_NAME_PART = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Expanded:
    """One kernel of a document: its YAML tree after substitution, and the values that were substituted.

    `is_choice`: whether other values of a variant change its schedule or placements alone."""

    document: YamlMapping
    variant: tuple[tuple[str, Value], ...] = ()
    is_choice: bool = False

    @property
    def suffix(self) -> str:
        """The suffix of the kernel name, `__value` per variant."""
        return "".join(f"__{in_name(value)}" for _, value in self.variant)


def in_name(value: Value) -> str:
    """The spelling of a variant's value in a kernel name."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def expand(document: YamlMapping, report: Reporter) -> list[Expanded]:
    """The kernels of a document, the last variant varying fastest. Empty only after reporting an error."""
    entry = document.get("variants")
    body = YamlMapping(tuple(e for e in document.entries if e.name != "variants"), document.span, document.size)
    axes = {} if entry is None else _read_axes(entry.value, report)
    if axes is None:
        return []
    combinations = prod(map(len, axes.values()))
    if entry is not None and (combinations > MAX_KERNELS or combinations * document.size > MAX_EXPANDED_NODES):
        report.error(
            "CG1046",
            f"{combinations} combinations of {document.size} values are too many"
            if combinations <= MAX_KERNELS
            else f"{combinations} combinations; at most {MAX_KERNELS} are allowed",
            entry.key.span,
            key="variants",
            label="too many",
            help="split the document, or drop values",
        )
        return []
    failures = len(report.diagnostics)
    is_choice = _has_choice(body, axes)
    result: list[Expanded] = []
    for values in product(*axes.values()):
        bindings = dict(zip(axes, values, strict=True))
        node = _Substitution(bindings, report).mapping(body, top=True)
        result.append(Expanded(node, tuple(bindings.items()), is_choice))
        if len(report.diagnostics) > failures:
            return []
    return result


def _has_choice(body: YamlMapping, axes: Mapping[str, object]) -> bool:
    """Whether a variant occurs in the schedule or in placements, and nowhere that changes results or arguments."""
    chosen: set[str] = set()
    others: set[str] = set()
    for entry in body.entries:
        if entry.name == "schedule":
            chosen.update(_references(entry.value))
        elif entry.name == "arrays" and isinstance(entry.value, YamlMapping):
            for array in entry.value.entries:
                others.update(_references(array.key))
                keys = array.value.entries if isinstance(array.value, YamlMapping) else ()
                for key in keys:
                    (chosen if key.name == "memory" else others).update(_references(key.value))
        elif entry.name not in ("doc", "check"):
            others.update(_references(entry.value))
    return any(name in axes and name not in others for name in chosen)


def _references(node: YamlNode) -> Iterator[str]:
    match node:
        case YamlMapping():
            for entry in node.entries:
                yield from _references(entry.key)
                yield from _references(entry.value)
        case YamlSequence():
            for item in node.items:
                yield from _references(item)
        case YamlScalar():
            yield from map(_name, _REFERENCE.finditer(node.string))


def _read_axes(node: YamlNode, report: Reporter) -> dict[str, list[Value]] | None:
    entries = read_mapping(node, report, key="variants")
    if entries is None:
        return None
    axes: dict[str, list[Value]] = {}
    valid = True
    for entry in entries:
        key = join("variants", entry.name)
        problem = name_problem(entry.name)
        if problem is not None:
            report.error(
                "CG1017",
                f"`{shorten(entry.name)}` can't be the name of a variant: {problem[0]}",
                first_line(entry.key),
                key=key,
                label="this name",
                help=problem[1],
            )
            valid = False
        if not isinstance(entry.value, YamlSequence) or not entry.value.items:
            report.error(
                "CG1044",
                f"`{key}` must list the values, not be {describe(entry.value)}"
                if not isinstance(entry.value, YamlSequence)
                else f"`{key}` lists no values",
                first_line(entry.value),
                key=key,
                label="expected a list",
                help=f"write a list such as `{shorten(entry.name)}: [16, 32]`",
            )
            valid = False
            continue
        values = [_read_value(item, report, key) for item in entry.value.items]
        axes[entry.name] = [value for value in values if value is not None]
        valid = valid and len(axes[entry.name]) == len(values)
    return axes if valid else None


def _read_value(node: YamlNode, report: Reporter, key: str) -> Value | None:
    if not isinstance(node, YamlScalar) or node.value is None:
        wrong_type(node, "a number or a word", report, key=key)
        return None
    if not _NAME_PART.fullmatch(in_name(node.value)) or "__" in in_name(node.value):
        report.error(
            "CG1045",
            f"`{shorten(node.string)}` can't be part of a kernel's name",
            first_line(node),
            key=key,
            label="not made of letters, digits and single underscores",
            help="name the choice by a whole number or a word, and derive the value from it in an expression",
        )
        return None
    return node.value


class _Substitution:
    """Substitutes the values of one combination for the references in a document's scalars."""

    def __init__(self, bindings: Mapping[str, Value], report: Reporter) -> None:
        self._bindings = bindings
        self._report = report

    def mapping(self, node: YamlMapping, *, top: bool = False) -> YamlMapping:
        entries = [
            Entry(self._scalar(e.key), self._node(e.value, lenient=top and e.name == "doc")) for e in node.entries
        ]
        return YamlMapping(unique(entries, self._report), node.span, node.size)

    def _node(self, node: YamlNode, *, lenient: bool = False) -> YamlNode:
        match node:
            case YamlMapping():
                return self.mapping(node)
            case YamlSequence():
                return YamlSequence(tuple(map(self._node, node.items)), node.span, node.size)
        return self._scalar(node, lenient=lenient)

    def _scalar(self, node: YamlScalar, *, lenient: bool = False) -> YamlScalar:
        """`lenient` keeps references to unknown names: a doc text may contain a dollar sign."""
        matches = list(_REFERENCE.finditer(node.string))
        if not matches:
            return node
        text = node.text
        known = [match for match in matches if self._known(match, text, lenient)]
        if len(known) == 1 and known[0].span() == (0, len(node.string)):
            value = self._bindings[_name(known[0])]
            string = in_name(value)
            return replace(node, value=value, string=string, replaced=_text(string, text, known[0].start()))
        if not known:
            return node
        result = _splice(text, known, self._bindings)
        value_of_text = result.value if node.style else core_schema.resolve(result.value)
        return replace(node, value=value_of_text, string=result.value, replaced=result)

    def _known(self, match: re.Match[str], text: Text, lenient: bool) -> bool:
        name = _name(match)
        if name in self._bindings:
            return True
        if not lenient:
            span: Span = text.span(match.start(), match.end())
            self._report.error(
                "CG1047",
                f"there is no variant `{name}`",
                span,
                label="unknown variant",
                help=did_you_mean(name, self._bindings, what="variants"),
            )
        return False


def _name(match: re.Match[str]) -> str:
    return match[1] or match[2]


def _text(string: str, original: Text, offset: int) -> Text:
    """The substituted text of a reference; all its characters have the position of the dollar sign."""
    return Text(string, (original.positions[offset],) * len(string) + (original.positions[-1],))


def _splice(text: Text, matches: list[re.Match[str]], bindings: Mapping[str, Value]) -> Text:
    value, positions, done = "", list[tuple[int, int]](), 0
    for match in matches:
        string = in_name(bindings[_name(match)])
        value += text.value[done : match.start()] + string
        positions += text.positions[done : match.start()]
        positions += (text.positions[match.start()],) * len(string)
        done = match.end()
    return Text(value + text.value[done:], (*positions, *text.positions[done:]))
