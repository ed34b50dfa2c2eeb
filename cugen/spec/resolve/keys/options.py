"""Options of a schedule that any family takes: unrolling, registers, fast functions, and the launch."""

from __future__ import annotations

from dataclasses import replace

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Span
from cugen.spec.model import Options
from cugen.spec.parse.keys import FULL_UNROLL, MAX_REGISTERS, MAX_UNROLL, MIN_REGISTERS, OPTION_KEYS
from cugen.spec.parse.nodes import Entry, YamlMapping, YamlScalar
from cugen.spec.parse.reading import first_line, join, read_bool, read_integer, wrong_type

_BANK_BYTES = (4, 8)


def is_option(entry: Entry) -> bool:
    """Whether an entry of a schedule is an option; `unroll: 4` is a tunable of some families."""
    return entry.name in OPTION_KEYS and (entry.name != "unroll" or isinstance(entry.value, YamlMapping))


def with_option(options: Options, entry: Entry, report: Reporter, key: str, spans: list[tuple[str, Span]]) -> Options:
    """The options with that of an entry; unchanged where it is invalid. Adds the spans of the loops of `unroll`."""
    node = entry.value
    match entry.name:
        case "unroll":
            assert isinstance(node, YamlMapping)
            factors = [(item.name, _factor(item, report, join(key, item.name))) for item in node.entries]
            spans += [(f"unroll.{item.name}", first_line(item.value)) for item in node.entries]
            return replace(options, unroll=tuple((name, n) for name, n in factors if n is not None))
        case "max_registers":
            low, high = MIN_REGISTERS, MAX_REGISTERS
            return replace(options, max_registers=read_integer(node, report, key=key, low=low, high=high) or 0)
        case "fast_math":
            return replace(options, fast_math=read_bool(node, report, key=key) or False)
        case "carveout":
            return replace(options, carveout=read_integer(node, report, key=key, low=0, high=100))
    width = read_integer(node, report, key=key, low=min(_BANK_BYTES), high=max(_BANK_BYTES))
    if width is not None and width not in _BANK_BYTES:
        report.error(
            "CG1029",
            f"`{key}` is {width}, and banks have 4 or 8 bytes",
            first_line(node),
            key=key,
            label="allowed: 4 and 8",
            help="choose 4 or 8",
        )
    return replace(options, bank_bytes=width or 0)


def _factor(item: Entry, report: Reporter, key: str) -> int | None:
    """An unroll factor, 0 for `full`."""
    if isinstance(item.value, YamlScalar) and item.value.value == FULL_UNROLL:
        return 0
    if isinstance(item.value, YamlScalar) and isinstance(item.value.value, str):
        wrong_type(item.value, f"an integer or `{FULL_UNROLL}`", report, key=key)
        return None
    return read_integer(item.value, report, key=key, low=1, high=MAX_UNROLL)
