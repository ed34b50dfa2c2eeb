"""`schedule`: the user's family, tile sizes and tunables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Span
from cugen.spec.model import Options, Schedule
from cugen.spec.nearest import did_you_mean
from cugen.spec.parse.keys import MAX_THREADS, MAX_TILE, SCHEDULE_KEYS
from cugen.spec.parse.nodes import Entry, YamlMapping, YamlNode, YamlScalar
from cugen.spec.parse.reading import first_line, join, read_integer, read_mapping, read_text, shorten, wrong_type
from cugen.spec.resolve.keys.options import is_option, with_option

Sizes = tuple[tuple[str, int], ...]

_SIZES_HELP = "map index names to sizes, such as `{m: 16, n: 16}`"


def read_schedules(
    node: YamlNode, indices: Mapping[str, Sequence[str]] | None, report: Reporter
) -> tuple[tuple[str, Schedule], ...]:
    """Schedules by output name, or one under "" for all outputs.

    `indices` maps each target to the indices of the statements that write it; None if the statements are invalid:
    names then aren't checked.
    """
    entries = read_mapping(node, report, key="schedule")
    if entries is None:
        return ()
    per_output = bool(entries) and all(isinstance(e.value, YamlMapping) for e in entries)
    if not per_output or any(entry.name in SCHEDULE_KEYS for entry in entries):
        all_indices = (
            None if indices is None else list(dict.fromkeys(name for names in indices.values() for name in names))
        )
        return (("", _read_schedule(node, all_indices, report, "schedule")),)
    result: list[tuple[str, Schedule]] = []
    for entry in entries:
        if indices is not None and entry.name not in indices:
            report.error(
                "CG1043",
                f"no statement writes `{shorten(entry.name)}`",
                first_line(entry.key),
                key=join("schedule", entry.name),
                label="neither an output nor a key of `schedule`",
                help=did_you_mean(entry.name, (*SCHEDULE_KEYS, *indices), what="names"),
            )
            continue
        known = None if indices is None else indices[entry.name]
        result.append((entry.name, _read_schedule(entry.value, known, report, join("schedule", entry.name))))
    return tuple(result)


def _read_schedule(node: YamlNode, known: Sequence[str] | None, report: Reporter, key: str) -> Schedule:
    family: str | None = None
    maps: dict[str, Sizes] = {"block": (), "thread": (), "step": ()}
    tunables: list[tuple[str, int | str | bool]] = []
    spans: list[tuple[str, Span]] = []
    options = Options()
    entries = {entry.name: entry for entry in read_mapping(node, report, key=key) or ()}
    for name, entry in entries.items():
        spans.append((name, first_line(entry.value)))
        if name == "family":
            family = read_text(entry.value, report, key=f"{key}.family")
        elif name in maps:
            maps[name] = _read_sizes(entry, known, report, f"{key}.{name}", spans)
        elif is_option(entry):
            options = with_option(options, entry, report, f"{key}.{name}", spans)
        else:
            value = _read_tunable(entry, report, key)
            if value is not None:
                tunables.append((name, value))
    _check_threads(maps, entries, report, key)
    return Schedule(family, maps["block"], maps["thread"], maps["step"], tuple(tunables), tuple(spans), options)


def _read_sizes(
    entry: Entry, known: Sequence[str] | None, report: Reporter, key: str, spans: list[tuple[str, Span]]
) -> Sizes:
    sizes: list[tuple[str, int]] = []
    if known is None:
        items = read_mapping(entry.value, report, key=key, help=_SIZES_HELP) or ()
    else:
        items = tuple(_known_indices(entry.value, known, report, key))
    for item in items:
        size = read_integer(item.value, report, key=join(key, item.name), low=1, high=MAX_TILE)
        spans.append((f"{entry.name}.{item.name}", first_line(item.value)))
        if size is not None:
            sizes.append((item.name, size))
    return tuple(sizes)


def _known_indices(node: YamlNode, known: Sequence[str], report: Reporter, key: str) -> list[Entry]:
    valid: list[Entry] = []
    for item in read_mapping(node, report, key=key, help=_SIZES_HELP) or ():
        if item.name in known:
            valid.append(item)
            continue
        report.error(
            "CG1041",
            f"`{shorten(item.name)}` isn't an index of the statements of this schedule",
            first_line(item.key),
            key=join(key, item.name),
            label="unknown index",
            help=did_you_mean(item.name, known, what="indices"),
        )
    return valid


def _read_tunable(entry: Entry, report: Reporter, key: str) -> int | str | bool | None:
    node = entry.value
    if isinstance(node, YamlScalar) and isinstance(node.value, bool | int | str):
        return node.value
    if isinstance(node, YamlMapping):
        report.error(
            "CG1014",
            f"there is no key `{shorten(entry.name)}` here",
            first_line(entry.key),
            key=join(key, entry.name),
            label="unknown key",
            help=did_you_mean(entry.name, SCHEDULE_KEYS, what="keys"),
        )
    else:
        wrong_type(node, "an integer, a word, or true or false", report, key=join(key, entry.name))
    return None


def _check_threads(maps: Mapping[str, Sizes], entries: Mapping[str, Entry], report: Reporter, key: str) -> None:
    block, thread = dict(maps["block"]), dict(maps["thread"])
    valid = True
    for name, size in thread.items():
        if name in block and block[name] % size:
            valid = False
            size_entry = _entry(entries["thread"], name)
            report.error(
                "CG1042",
                f"the block tile of {block[name]} along `{name}` isn't a multiple of the thread tile of {size}",
                first_line(size_entry.value),
                key=join(f"{key}.thread", name),
                label=f"doesn't divide {block[name]}",
                help=f"choose a divisor of {block[name]}",
            )
    if not valid or not block or not thread:
        return
    threads = prod(size // thread.get(name, 1) for name, size in block.items())
    if threads > MAX_THREADS:
        report.error(
            "CG3001",
            f"this gives {threads} threads per block; the limit is {MAX_THREADS}",
            first_line(entries["block"].value),
            key=f"{key}.block",
            label=f"{prod(block.values())} elements, {prod(thread.get(name, 1) for name in block)} per thread",
            help="make the block tile smaller, or the thread tile larger",
        )


def _entry(entry: Entry, name: str) -> Entry:
    nested = entry.value.get(name) if isinstance(entry.value, YamlMapping) else None
    return nested or entry
