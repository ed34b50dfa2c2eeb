"""A made-up target in YAML: figures of a GPU that need not exist, for questions about occupancy."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from cugen.machine import Target, known_targets, target
from cugen.machine.requests.warp import WARP_SIZE
from cugen.spec.diagnostics import Diagnostic, Reporter, SpecError
from cugen.spec.expressions import NOWHERE
from cugen.spec.parse.keys import DEFAULT_TARGET
from cugen.spec.parse.nodes import MAX_BYTES, decode, parse, printable
from cugen.spec.parse.reading import first_line, read_choice, read_integer, read_keys, read_text, wrong_type

VERSION = 1
# The figures that a file may have, with their bounds.
FIGURES = {
    "threads_per_block": (1, 1 << 16),
    "threads_per_sm": (32, 1 << 16),
    "warps_per_sm": (1, 1 << 11),
    "blocks_per_sm": (1, 1 << 10),
    "registers_per_sm": (32, 1 << 24),
    "registers_per_block": (32, 1 << 24),
    "registers_per_thread": (1, 1 << 10),
    "register_unit": (1, 1 << 16),
    "sub_partitions": (1, 64),
    "shared_per_sm": (0, 1 << 30),
    "shared_per_block": (0, 1 << 30),
    "shared_opt_in": (0, 1 << 30),
    "shared_unit": (1, 1 << 16),
    "shared_reserved": (0, 1 << 16),
}
TARGET_KEYS = ("cugen_target", "name", "like", *FIGURES)
# A figure that is at most another one by a unit.
_WITHIN = (
    ("warps_per_sm", "threads_per_sm", WARP_SIZE),
    ("shared_per_block", "shared_per_sm", 1),
    ("shared_opt_in", "shared_per_sm", 1),
)
# A figure that follows from another one, unless the file has it.
_DERIVED = {
    "warps_per_sm": "threads_per_sm",
    "registers_per_block": "registers_per_sm",
    "shared_opt_in": "shared_per_block",
}


def read_target(path: str | os.PathLike[str]) -> Target:
    """The target of a file; SpecError with all its errors."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"`{name}` can't be read: {reason}"
        raise SpecError([Diagnostic("CG1001", message, name, NOWHERE, help="check the path")]) from None
    report = Reporter(name)
    text = decode(content, report)
    if text is None:
        raise SpecError(report.diagnostics)
    return read_target_text(text, name)


def read_target_text(text: str, name: str = "target.yaml") -> Target:
    """`read_target`, of a text."""
    report = Reporter(name, printable(text))
    documents = parse(text, report)
    report.raise_if_failed()
    if len(documents) != 1:
        report.error("CG1010", f"a target file has one document, not {len(documents)}", NOWHERE, help="write one")
        report.raise_if_failed()
    keys = read_keys(documents[0], TARGET_KEYS, report, key="", required=("cugen_target", "name")) or {}
    if "cugen_target" in keys:
        read_integer(keys["cugen_target"].value, report, key="cugen_target", low=VERSION, high=VERSION)
    like = DEFAULT_TARGET
    if "like" in keys:
        read = read_choice(keys["like"].value, known_targets(), report, key="like", what="target", code="CG1049")
        like = read or DEFAULT_TARGET
    title = read_text(keys["name"].value, report, key="name") if "name" in keys else None
    if title is not None and len(title.strip().splitlines()) != 1:
        wrong_type(keys["name"].value, "a name in one line", report, key="name")
    values: dict[str, int] = {}
    for figure, (low, high) in FIGURES.items():
        if figure in keys:
            value = read_integer(keys[figure].value, report, key=figure, low=low, high=high)
            values |= {} if value is None else {figure: value}
    for limit, total, unit in _WITHIN:
        if limit in values and total in values and values[limit] > values[total] // unit:
            highest = values[total] // unit
            report.error(
                "CG1029",
                f"`{limit}` is {values[limit]}, more than the {highest} of `{total}: {values[total]}`",
                first_line(keys[limit].value),
                key=limit,
                label=f"allowed: at most {highest}",
                help=f"make `{limit}` smaller, or `{total}` larger",
            )
    report.raise_if_failed()
    derived = {figure: 0 for figure, basis in _DERIVED.items() if basis in values and figure not in values}
    figures: dict[str, Any] = {**derived, **values}
    return replace(target(like), name=(title or "").strip(), carveouts=(), **figures)
