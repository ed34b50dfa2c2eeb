"""`accumulate`: the type of accumulators, and the lower precisions that the spec allows."""

from __future__ import annotations

from cugen.spec.diagnostics import Reporter
from cugen.spec.model import Precision
from cugen.spec.parse.keys import ACCUMULATE_KEYS, ACCUMULATE_NAMES, FP8_SUMS, RESERVED_ACCUMULATE_KEYS
from cugen.spec.parse.nodes import Entry, YamlMapping, YamlNode, YamlSequence
from cugen.spec.parse.reading import first_line, join, read_bool, read_choice, read_keys, wrong_type
from cugen.spec.types import DTYPES, DType


def read_accumulate(entry: Entry | None, report: Reporter) -> tuple[DType | None, Precision]:
    """A type by name, or a mapping with `type` and permissions; None for each operand's default type."""
    if entry is None:
        return None, Precision()
    if not isinstance(entry.value, YamlMapping):
        if isinstance(entry.value, YamlSequence) or entry.value.value is None:
            expected = f"one of {', '.join(ACCUMULATE_NAMES)}, or a mapping with {', '.join(ACCUMULATE_KEYS)}"
            wrong_type(entry.value, expected, report, key="accumulate")
            return None, Precision()
        return _read_type(entry.value, report, "accumulate"), Precision()
    known = (*ACCUMULATE_KEYS, *(name for name in RESERVED_ACCUMULATE_KEYS if name in _names(entry.value)))
    options = read_keys(entry.value, known, report, key="accumulate") or {}
    for name in RESERVED_ACCUMULATE_KEYS:
        if name in options:
            report.error(
                "CG1057",
                f"`accumulate.{name}` is a reserved key: it has no meaning yet",
                first_line(options[name].key),
                key=join("accumulate", name),
                label="reserved",
                help=f"remove it; known are {', '.join(ACCUMULATE_KEYS)}",
            )
    dtype, tf32, fp8, winograd = None, False, FP8_SUMS[0], False
    if "type" in options:
        dtype = _read_type(options["type"].value, report, "accumulate.type")
    if "tf32" in options:
        tf32 = read_bool(options["tf32"].value, report, key="accumulate.tf32") or False
    if "fp8" in options:
        key = "accumulate.fp8"
        fp8 = read_choice(options["fp8"].value, FP8_SUMS, report, key=key, what="sum of fp8 products") or fp8
    if "winograd" in options:
        winograd = read_bool(options["winograd"].value, report, key="accumulate.winograd") or False
    return dtype, Precision(tf32, fp8, winograd)


def _names(node: YamlMapping) -> list[str]:
    return [entry.name for entry in node.entries]


def _read_type(node: YamlNode, report: Reporter, key: str) -> DType | None:
    name = read_choice(node, ACCUMULATE_NAMES, report, key=key, what="accumulator type")
    return None if name is None else DTYPES[name]
