"""Sentences on device memory: its peak bandwidth, its bursts, and what its partitions serve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cugen.analysis.launches.facts import Facts
from cugen.analysis.launches.sentences import Sentence
from cugen.analysis.totals.partitions import PartitionSpread
from cugen.analysis.verdicts.report import AccessReport
from cugen.machine import device, is_known, target
from cugen.machine.dram import PARTITION_BYTES, PARTITION_SOURCE, dram, memory_partitions
from cugen.machine.requests.warp import SECTOR_BYTES

_GIGA, _MHZ = 1e9, 1e6


def dram_sentences(facts: Facts, accesses: Sequence[AccessReport]) -> Iterator[Sentence]:
    """What is published of the device's memory, and how the accesses use it."""
    if not facts.device or not is_known(facts.target):
        return
    yield "dram", _bandwidth(facts.device)
    if burst := dram(device(facts.device)).burst:
        share = "a sector" if burst.bytes == SECTOR_BYTES else f"{burst.bytes // SECTOR_BYTES} sectors"
        transfers = f"{burst.length} transfers of a channel of {burst.channel_bits} bits"
        yield "dram", f"a burst is {burst.bytes} bytes, {share}: {transfers} ({burst.source})"
    count = memory_partitions(target(facts.target))
    if not count:
        yield "dram", "how addresses are hashed over channels and banks is not documented from 2.0 on: no figure"
        return
    yield "dram", f"{count} partitions, each with every {count}th {PARTITION_BYTES} bytes ({PARTITION_SOURCE})"
    for spread in facts.partitions:
        text = next(report.text for report in accesses if report.access is spread.access)
        yield "dram", f"{text}: {spread_text(spread)}"


def spread_text(spread: PartitionSpread) -> str:
    """How many partitions the first wave of blocks uses, and how evenly."""
    used = sum(moved > 0 for moved in spread.moved)
    share = max(spread.moved) / sum(spread.moved)
    text = (
        f"the first requests of a wave of blocks go to {used} of {len(spread.moved)} partitions, {share:.1%} of the "
        f"bytes to the busiest"
    )
    return f"{text}; rows of {spread.pitch:,} elements spread them" if spread.pitch else text


def _bandwidth(name: str) -> str:
    memory, published = dram(device(name)), device(name).bandwidth
    if not memory.bandwidth:
        return f"{name} has {memory.kind} of {published / _GIGA:,.1f} GB/s; its width and clock have no source here"
    return (
        f"{name} has {memory.kind}: {memory.bus_bits:,} bits × {memory.clock / _MHZ:,g} MHz × 2 are "
        f"{memory.bandwidth / _GIGA:,.1f} GB/s ({memory.source})"
    )
