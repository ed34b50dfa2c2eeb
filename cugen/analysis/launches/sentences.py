"""The facts of a launch in words: one sentence for each, with its numbers in front."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cugen.analysis.launches.ceilings import Roofline
from cugen.analysis.launches.facts import BranchFacts, Facts
from cugen.analysis.launches.latency_hiding import Hiding
from cugen.analysis.launches.launch import OccupancyFacts
from cugen.analysis.launches.operations import Work
from cugen.analysis.launches.traffic import Traffic

Sentence = tuple[str, str]  # topic, sentence
_LEVELS = {
    "asked": "if nothing were cached",
    "moved": "if every sector came from device memory each time",
    "compulsory": "if every byte came from device memory once",
}


def sentences(facts: Facts, branch_texts: Sequence[str]) -> tuple[Sentence, ...]:
    """`branch_texts` gives each of the facts' branches as the source has it."""
    found = [*_launch(facts), *_occupancy(facts), *_registers(facts)]
    found += [("divergence", text) for text in _divergence(facts, branch_texts)]
    found += _constant(facts)
    if facts.unknown:
        found.append(("unknown", f"work, traffic and what follows from them can't be counted: {facts.unknown}"))
    if facts.work:
        found.append(("work", _work(facts.work)))
    if facts.traffic:
        found += [("traffic", text) for text in _traffic(facts.traffic)]
    if facts.roofline and facts.work:
        found += [("roofline", text) for text in _roofline(facts.roofline, facts.work)]
        if facts.work.all_flop and facts.flop_per_byte_read:
            found.append(("roofline", f"{facts.flop_per_byte_read:.4g} FLOP for each byte that reads ask for"))
    elif facts.work and facts.device:
        found.append(("roofline", f"unknown: {facts.device} has no published rate for this arithmetic"))
    if facts.hiding:
        found += [("latency", text) for text in _hiding(facts.hiding, facts.device)]
    return tuple(found)


def _launch(facts: Facts) -> Iterator[Sentence]:
    launch = facts.launch
    warps = f"{launch.threads:,} threads, {_count(launch.warps_per_block, 'warp')} a block"
    idle = "a multiple of 32" if not launch.idle_lanes else f"{launch.idle_lanes} lanes of the last warp are idle"
    yield "launch", f"{warps}: {idle}"
    if launch.grid is None:
        yield "launch", "the number of blocks depends on params without a value"
        return
    limits = " × ".join(f"{limit:,}" for limit in launch.grid_limits)
    within = "within" if launch.is_within_limits else "BEYOND"
    shape = " × ".join(f"{size:,}" for size in launch.grid)
    yield "launch", f"{_count(launch.blocks or 0, 'block')}, a grid of {shape}: {within} {facts.target}'s {limits}"
    if facts.waves:
        waves = facts.waves
        tail = f"a tail of {_count(waves.tail_blocks, 'block')}" if waves.tail_blocks else "no tail"
        cut = f"{waves.full_waves:,} full and {tail}" if waves.full_waves else "not one full"
        yield (
            "waves",
            f"{waves.waves:.2f} waves on {_device(facts)}, which holds {waves.at_once:,} blocks at once: {cut}; "
            f"{waves.utilisation:.1%} of the places are used",
        )
    elif not facts.device:
        yield "waves", f"unknown: the table has no device of {facts.target}; name one"


def _device(facts: Facts) -> str:
    return f"{facts.device} (the device taken for {facts.target})" if facts.is_default else facts.device


def _occupancy(facts: Facts) -> Iterator[Sentence]:
    held = facts.occupancy
    found = held.occupancy
    if not held.can_launch:
        yield "occupancy", f"0 blocks: {facts.target} can't launch this, by {' and '.join(found.limited_by)}"
        return
    limits = ", ".join(f"{name} {limit:,}" for name, limit in found.limits.items())
    yield (
        "occupancy",
        f"{found.fraction:.1%}: {_count(found.blocks_per_sm, 'block')}, {_count(found.warps_per_sm, 'warp')} an SM, "
        f"limited by {' and '.join(found.limited_by)} (blocks that each allows: {limits})",
    )
    if facts.launch.cluster > 1:
        yield (
            "occupancy",
            f"blocks start in clusters of {facts.launch.cluster}, where one cluster of SMs has room for all: which SMs "
            "these are isn't published, so this is what an SM holds by itself, and clusters may lower it",
        )
    if held.registers is None:
        yield "occupancy", "registers aren't known, so this is what the rest allows: they may lower it"
    yield "occupancy", _next_step(held)


def _next_step(held: OccupancyFacts) -> str:
    step = held.next_step
    if step is None:
        return "no change of registers or shared memory would let an SM hold more blocks"
    changes = []
    if held.registers is not None and step.registers < held.registers:
        changes.append(f"{step.registers} registers a thread instead of {held.registers}")
    if step.shared_bytes < held.shared_bytes:
        changes.append(f"{step.shared_bytes:,} shared bytes a block instead of {held.shared_bytes:,}")
    return f"{step.occupancy.fraction:.1%} would take at most {' and '.join(changes)}"


def _registers(facts: Facts) -> Iterator[Sentence]:
    if facts.compiler is None:
        return
    found = facts.compiler
    spills = "no spills"
    if found.spill_stores or found.spill_loads:
        spills = f"spills of {found.spill_stores} bytes stored and {found.spill_loads} loaded a thread"
    stack = f", {found.stack_bytes} bytes of stack" if found.stack_bytes else ""
    yield "registers", f"{found.registers} a thread, {spills}{stack}, as compiled"


def _divergence(facts: Facts, texts: Sequence[str]) -> Iterator[str]:
    if not facts.branches and not facts.unknown:
        yield "none: no guard, no condition, and all lanes of a warp make the same passes through each loop"
    for branch, text in zip(facts.branches, texts, strict=True):
        yield f"{text}: {_parting(branch)}"
    if facts.choices:
        yield f"{_count(facts.choices, 'choice')} inside expressions, where compilers select and don't branch"


def _parting(branch: BranchFacts) -> str:
    found = branch.parting
    if found is None:
        return f"unknown: {branch.reason}"
    what = "passes of warps" if branch.kind == "loop" else "warps"
    paths = "2 paths there" if found.mixed_warps else "1 path each"
    kept = f"{found.taken / found.lanes:.1%} of the lanes go on" if found.lanes else "no lane comes here"
    return f"{found.mixed_warps:,} of {found.warps:,} {what} mixed, {paths}; {kept}"


def _constant(facts: Facts) -> Iterator[Sentence]:
    found = facts.constant
    if not found.bytes_used:
        return
    share = f"{found.bytes_used:,} of {found.budget:,} bytes"
    if found.loads is None or found.requests is None:
        reason = facts.unknown or "an address depends on data"
        yield "constants", f"{share}; how many requests the reads take is unknown: {reason}"
    elif not found.loads:
        yield "constants", f"{share}; only scalars are read from it, one address for all lanes"
    elif found.is_uniform:
        yield "constants", f"{share}; every read is uniform: one request for each of {found.loads:,} warp loads"
    else:
        yield (
            "constants",
            f"{share}; reads are serialised: {found.requests:,} requests for {found.loads:,} warp loads, one for each "
            "address",
        )


def _work(found: Work) -> str:
    parts = [f"{count:,} FLOP in {kind}" for kind, count in found.flop]
    if found.functions:
        parts.append(f"{found.functions:,} of them functions of many instructions")
    if found.integer:
        parts.append(f"{found.integer:,} integer operations")
    if not parts:
        return "no arithmetic on values"
    return f"{'' if found.exact else 'at most '}{', '.join(parts)}"


def _traffic(found: Traffic) -> Iterator[str]:
    bound = "" if found.exact else "at most "
    yield f"{bound}{found.read:,} bytes asked for by reads of global memory, {found.written:,} by writes"
    if found.moved is None:
        yield "the sectors moved are unknown: an address depends on data"
    elif found.efficiency is not None:
        use = f"{found.efficiency:.1%} of them asked for"
        if found.efficiency > 1:
            use = f"{found.efficiency:.2f} bytes asked for with each, since lanes of a warp share elements"
        yield f"{found.moved:,} bytes in the sectors moved: {use}"
    yield f"{found.compulsory:,} bytes are compulsory: each array once"
    if found.untiled != found.read:
        yield (
            f"{found.untiled:,} bytes would be read if every operand came from global memory: tiles and registers "
            f"divide that by {found.reuse:.2f}"
        )


def _roofline(found: Roofline, done: Work) -> Iterator[str]:
    if not done.all_flop:
        least = found.best.seconds
        yield f"no floating-point work: {found.device} needs {_time(least)} for the compulsory bytes alone"
        return
    yield (
        f"{found.device} does {found.peak / 1e9:,.1f} GFLOP/s and {found.bandwidth / 1e9:,.1f} GB/s: its ridge is at "
        f"{found.ridge:.1f} FLOP/B"
    )
    for ceiling in found.ceilings:
        limit = "memory" if ceiling.is_memory_bound else "arithmetic"
        yield (
            f"{ceiling.intensity:.4g} FLOP/B {_LEVELS[ceiling.name]}: {ceiling.flop_per_s / 1e9:,.1f} GFLOP/s at most, "
            f"{ceiling.share:.1%} of the peak, by {limit}; {_time(ceiling.seconds)} at least"
        )


def _hiding(found: Hiding, device: str) -> Iterator[str]:
    latency = found.latency
    mark = "assumed: " if latency.assumed else ""
    loads = "each load" if found.loads_together == 1 else f"every {found.loads_together} loads"
    verdict = "enough" if found.warps_held >= found.warps_needed else "too few by itself"
    yield (
        f"{found.warps_needed} warps a scheduler hide {latency.cycles} cycles with {found.instructions_between:.1f} "
        f"instructions for {loads}, and it holds {found.warps_held:g}: {verdict} ({mark}{latency.source})"
    )
    yield (
        f"{found.bytes_in_flight:,} bytes in flight an SM, {found.bytes_per_thread} from each thread; {device} takes "
        f"{found.bytes_needed:,.0f} by Little's law on an idle memory: {found.bandwidth_share:.0%} of its bandwidth"
    )
    if latency.saturating_bytes:
        yield (
            f"{latency.saturating_bytes:,} bytes in flight an SM were seen to saturate {device}: this has "
            f"{min(1.0, found.bytes_in_flight / latency.saturating_bytes):.0%} of them"
        )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
