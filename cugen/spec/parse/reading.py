"""Typed readers of YAML nodes: each returns the value, or None after reporting an error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Span
from cugen.spec.nearest import did_you_mean, nearest, plural
from cugen.spec.parse.keys import TYPE_SYNONYMS
from cugen.spec.parse.nodes import Entry, YamlMapping, YamlNode, YamlScalar, YamlSequence
from cugen.spec.types import DTYPES, DType

PARENTHESES = "a list has brackets: `[M, N]`"
# Keys that may be missing, with a value.
_EXAMPLES = {
    "cugen": "cugen: 1",
    "shape": "shape: [M, N]",
    "dtype": "dtype: float32",
    "compute": "compute: y[i] = 2 * x[i]",
}
# Of keys that hold mappings.
_MAPPINGS = {
    "params": "params: {N: 1000}",
    "scalars": "scalars: {alpha: {dtype: float32}}",
    "arrays": "arrays: {x: {shape: [N], dtype: float32}}",
    "indices": "indices: {i: N}",
    "schedule": "schedule: {family: gemm}",
    "check": "check: {sectors: 1.5}",
    "variants": "variants: {tile: [16, 32]}",
}


def describe(node: YamlNode) -> str:
    """A description of a node, for messages."""
    match node:
        case YamlMapping():
            return "a mapping"
        case YamlSequence():
            return "a list"
        case YamlScalar(value=None):
            return "nothing"
        case YamlScalar(value=bool()):
            return f"the boolean `{node.string}`"
        case YamlScalar(value=int() | float()):
            return f"the number `{shorten(node.string)}`"
    return f"the text `{shorten(node.string)}`"


def shorten(text: str, limit: int = 40) -> str:
    """The text on one line, truncated to `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def wrong_type(node: YamlNode, expected: str, report: Reporter, *, key: str, help: str = "") -> None:
    """Reports a node of the wrong type (CG1015); without a key it is the whole document."""
    subject = f"`{key}`" if key else "the file"
    report.error(
        "CG1015",
        f"{subject} must be {expected}, not {describe(node)}",
        first_line(node),
        key=key,
        label=f"expected {expected}",
        help=help or f"write {expected}",
    )


def first_line(node: YamlNode) -> Span:
    """The span to underline: for a node of several lines, its first character."""
    span = node.span
    if span.end_line == span.line:
        return span
    if isinstance(node, YamlScalar):
        return Span(span.line, span.column, span.line, span.column + 1)
    return Span(span.line, span.column, span.line, span.column + 1)


def read_mapping(node: YamlNode, report: Reporter, *, key: str, help: str = "") -> tuple[Entry, ...] | None:
    """The entries of a mapping with user-defined keys."""
    if isinstance(node, YamlMapping):
        return node.entries
    example = f"write a mapping, such as `{_MAPPINGS[key]}`" if key in _MAPPINGS else ""
    wrong_type(node, "a mapping", report, key=key, help=help or example)
    return None


def read_keys(
    node: YamlNode, known: Sequence[str], report: Reporter, *, key: str, required: Sequence[str] = (), help: str = ""
) -> dict[str, Entry] | None:
    """The known entries of a mapping with fixed keys; reports unknown and missing ones. `help`: where it is none."""
    entries = read_mapping(node, report, key=key, help=help)
    if entries is None:
        return None
    by_name = {entry.name: entry for entry in entries}
    for entry in entries:
        if entry.name not in known:
            report.error(
                "CG1014",
                f"there is no key `{shorten(entry.name)}` here",
                first_line(entry.key),
                key=join(key, entry.name),
                label="unknown key",
                help=PARENTHESES if entry.name.endswith(")") else did_you_mean(entry.name, known, what="keys"),
            )
    for name in required:
        if name not in by_name:
            report.error(
                "CG1013",
                f"the key `{name}` is missing",
                first_line(node),
                key=join(key, name),
                label=f"no `{name}` in this mapping",
                help=f"add `{_EXAMPLES.get(name, f'{name}:')}`",
            )
    return {name: entry for name, entry in by_name.items() if name in known}


def join(key: str, name: str) -> str:
    """The path of a key: `arrays.A` and `shape` make `arrays.A.shape`."""
    return f"{key}.{shorten(name)}" if key else shorten(name)


def read_text(node: YamlNode, report: Reporter, *, key: str) -> str | None:
    """A string scalar."""
    if isinstance(node, YamlScalar) and isinstance(node.value, str):
        return node.value
    wrong_type(node, "text", report, key=key)
    return None


def read_bool(node: YamlNode, report: Reporter, *, key: str) -> bool | None:
    """A boolean scalar."""
    if isinstance(node, YamlScalar) and isinstance(node.value, bool):
        return node.value
    wrong_type(node, "`true` or `false`", report, key=key)
    return None


def read_integer(node: YamlNode, report: Reporter, *, key: str, low: int, high: int) -> int | None:
    """An integer literal in `low .. high`."""
    if not isinstance(node, YamlScalar) or not isinstance(node.value, int) or isinstance(node.value, bool):
        wrong_type(node, "an integer", report, key=key)
        return None
    if not low <= node.value <= high:
        _out_of_range(node, report, key, f"{low} to {high}")
        return None
    return node.value


def read_number(node: YamlNode, report: Reporter, *, key: str, low: float, high: float = math.inf) -> float | None:
    """A finite number in `low .. high`."""
    if not isinstance(node, YamlScalar) or not isinstance(node.value, int | float) or isinstance(node.value, bool):
        wrong_type(node, "a number", report, key=key)
        return None
    try:
        value = float(node.value)
    except OverflowError:
        value = math.inf
    if not low <= value <= high or math.isinf(value):
        _out_of_range(node, report, key, f"at least {low:g}" if math.isinf(high) else f"{low:g} to {high:g}")
        return None
    return value


def _out_of_range(node: YamlScalar, report: Reporter, key: str, allowed: str) -> None:
    report.error(
        "CG1029",
        f"`{key}` is {shorten(node.string)}, which is out of its range",
        node.span,
        key=key,
        label=f"allowed: {allowed}",
        help=f"choose a value of {allowed}",
    )


def read_choice(
    node: YamlNode,
    choices: Sequence[str],
    report: Reporter,
    *,
    key: str,
    what: str,
    code: str = "CG1052",
    instead: Mapping[str, str] | None = None,
) -> str | None:
    """One of the given option values; `what` names the option in messages, `instead` has the cure for other words."""
    if not isinstance(node, YamlScalar) or node.value is None:
        wrong_type(node, f"one of {', '.join(choices)}", report, key=key)
        return None
    if node.string not in choices:
        report.error(
            code,
            f"there is no {what} `{shorten(node.string)}`",
            first_line(node),
            key=key,
            label=f"unknown {what}",
            help=(instead or {}).get(node.string) or did_you_mean(node.string, choices, what=plural(what)),
        )
        return None
    return node.string


def read_type(node: YamlNode, report: Reporter, *, key: str) -> DType | None:
    """An element type. After reporting a misspelt one, the type that was probably meant (error recovery)."""
    if not isinstance(node, YamlScalar) or node.value is None:
        wrong_type(node, f"one of {', '.join(DTYPES)}", report, key=key)
        return None
    if node.string in DTYPES:
        return DTYPES[node.string]
    meant = TYPE_SYNONYMS.get(node.string) or nearest(node.string, DTYPES)
    report.error(
        "CG1028",
        f"there is no dtype `{shorten(node.string)}`",
        first_line(node),
        key=key,
        label="unknown dtype",
        help=f"did you mean `{meant}`?" if meant else did_you_mean(node.string, DTYPES, what="dtypes"),
    )
    return DTYPES[meant] if meant else None
