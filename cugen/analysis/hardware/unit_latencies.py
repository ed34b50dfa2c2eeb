"""Sentences on the latencies of the units of an SM that a launch uses, and the warps that hide them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cugen.analysis.launches.facts import Facts
from cugen.analysis.launches.sentences import Sentence
from cugen.machine import is_known, target
from cugen.machine.latency import issue_cycles
from cugen.machine.unit_latency import UNITS, unit_latency

_WORDS = {
    "registers": "the result of an instruction",
    "shared": "shared memory",
    "constant": "the first level of the constant cache",
    "texture": "the first level of the texture cache",
}


def unit_latency_sentences(facts: Facts, spaces: Collection[str]) -> Iterator[Sentence]:
    """What an instruction waits for: registers, and the spaces that the launch reads."""
    if not is_known(facts.target):
        return
    row = target(facts.target)
    resident = facts.occupancy.occupancy.warps_per_sm / row.sub_partitions
    for unit in UNITS:
        if unit != "registers" and unit not in spaces:
            continue
        latency = unit_latency(unit, row)
        if latency.cycles is None:
            yield "latency", f"of {_WORDS[unit]} on {row.name}: no figure with a source"
            continue
        mark = "assumed: " if latency.assumed else ""
        needed = latency.warps_to_hide(issue_cycles(row))
        yield (
            "latency",
            f"{latency.cycles:g} cycles to {_WORDS[unit]}: without independent instructions {needed} warps per "
            f"scheduler hide them, {resident:g} are resident ({mark}{latency.source})",
        )
