"""Facts of a launch as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cugen.analysis.launches.ceilings import Ceiling, Roofline
from cugen.analysis.launches.facts import BranchFacts, Facts
from cugen.analysis.launches.host_memory import HostBytes
from cugen.analysis.launches.latency_hiding import CopiesInFlight, LatencyHiding
from cugen.analysis.launches.launch import OccupancyFacts
from cugen.analysis.launches.operations import Work
from cugen.analysis.launches.traffic import Traffic
from cugen.analysis.verdicts.constant_reasons import excess
from cugen.machine.devices import unit_text

Sentence = tuple[str, str]  # topic, sentence
_LEVELS = {
    "asked": "without caches",
    "moved": "if every sector comes from device memory",
    "compulsory": "if every byte comes from device memory once",
}


UNKNOWN_REGISTERS = "registers are unknown before compilation, so this is an upper bound"


def sentences(facts: Facts, branch_texts: Sequence[str]) -> tuple[Sentence, ...]:
    """(topic, sentence) pairs; `branch_texts` has the source text of each branch."""
    texts = [*_launch(facts), *_occupancy(facts), *_registers(facts), *_local(facts)]
    texts += [("divergence", text) for text in _divergence(facts, branch_texts)]
    texts += _constant(facts)
    if facts.unknown:
        texts.append(("unknown", f"work, traffic and roofline can't be counted: {facts.unknown}"))
    if facts.work:
        texts.append(("work", _work(facts.work)))
    if facts.traffic:
        texts += [("traffic", text) for text in _traffic(facts.traffic)]
    if facts.roofline and facts.work:
        texts += [("roofline", text) for text in _roofline(facts.roofline, facts.work)]
        if facts.work.all_flop and facts.flop_per_byte_read:
            constants = ", constants once" if facts.traffic and facts.traffic.constant else ""
            texts.append(("roofline", f"{facts.flop_per_byte_read:.4g} FLOP per requested read byte{constants}"))
    elif facts.work and facts.device:
        texts.append(("roofline", f"unknown: {facts.device} has no published rate for this arithmetic"))
    texts += [("host link", _host_memory(each, facts.device)) for each in facts.host_memory]
    if facts.copies:
        texts += [("latency", text) for text in _in_flight(facts.copies, facts.device, "in the stages that TMA fills")]
    if facts.hiding:
        texts += [("latency", text) for text in _hiding(facts.hiding, facts.device)]
    return tuple(texts)


def _launch(facts: Facts) -> Iterator[Sentence]:
    launch = facts.launch
    warps = f"{launch.threads:,} threads, {_count(launch.warps_per_block, 'warp')} per block"
    idle = "a multiple of 32" if not launch.idle_lanes else f"{launch.idle_lanes} inactive lanes in the last warp"
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
        cut = f"{waves.full_waves:,} full and {tail}" if waves.full_waves else "no full wave"
        idle = f"; {_count(waves.idle_sms, 'SM')} without a block" if waves.idle_sms else ""
        yield (
            "waves",
            f"{waves.waves:.2f} waves on {_device(facts)} of {waves.at_once:,} resident blocks: {cut}; "
            f"{waves.utilisation:.1%} of the block slots are used{idle}",
        )
    elif not facts.device:
        yield "waves", f"unknown: the table has no device of {facts.target}; name one"


def _device(facts: Facts) -> str:
    return f"{facts.device} (default device of {facts.target})" if facts.is_default else facts.device


def resident_text(occupancy: OccupancyFacts, target: str) -> str:
    """How many blocks are resident on an SM of a target, and what limits them."""
    resident = occupancy.occupancy
    if not occupancy.can_launch:
        return f"0 blocks: {target} can't launch this, limited by {' and '.join(resident.limited_by)}"
    limits = ", ".join(f"{name} {limit:,}" for name, limit in resident.limits.items())
    return (
        f"{resident.fraction:.1%}: {_count(resident.blocks_per_sm, 'block')}, "
        f"{_count(resident.warps_per_sm, 'warp')} per SM, "
        f"limited by {' and '.join(resident.limited_by)} (blocks per SM by limit: {limits})"
    )


def _occupancy(facts: Facts) -> Iterator[Sentence]:
    occupancy = facts.occupancy
    yield "occupancy", resident_text(occupancy, facts.target)
    if not occupancy.can_launch:
        return
    if facts.launch.cluster > 1:
        yield (
            "occupancy",
            f"clusters of {facts.launch.cluster} blocks are scheduled within a GPC, whose SMs aren't published: this "
            "is the occupancy without clusters, an upper bound",
        )
    if facts.carveout is not None:
        shared, l1 = occupancy.shared_per_sm // 1024, occupancy.l1_bytes // 1024
        yield "occupancy", f"a carve-out of {facts.carveout}%: {shared} KiB of an SM are shared memory, {l1} KiB L1"
    if occupancy.registers is None:
        yield "occupancy", UNKNOWN_REGISTERS
    yield "occupancy", next_step_text(occupancy)


def next_step_text(occupancy: OccupancyFacts) -> str:
    """The next higher occupancy, and what it takes."""
    step = occupancy.next_step
    if step is None:
        return "no change of registers or shared memory raises it"
    changes = []
    if occupancy.registers is not None and step.registers < occupancy.registers:
        changes.append(f"{step.registers} registers per thread instead of {occupancy.registers}")
    if step.shared_bytes < occupancy.shared_bytes:
        changes.append(f"{step.shared_bytes:,} shared bytes per block instead of {occupancy.shared_bytes:,}")
    return f"{step.occupancy.fraction:.1%} takes at most {' and '.join(changes)}"


def _registers(facts: Facts) -> Iterator[Sentence]:
    if facts.compiler is None:
        return
    compiler = facts.compiler
    spills = "no spills"
    if compiler.spill_stores or compiler.spill_loads:
        spills = f"spills of {compiler.spill_stores} bytes stored and {compiler.spill_loads} loaded per thread"
    stack = f", {compiler.stack_bytes} bytes of stack" if compiler.stack_bytes else ""
    yield "registers", f"{compiler.registers} per thread, {spills}{stack}, as compiled"


def _local(facts: Facts) -> Iterator[Sentence]:
    local, (low, high) = facts.local, facts.local.array_bytes
    for name, size in local.arrays:
        where = (
            "in registers, as compiled"
            if not high
            else "in local memory, as compiled"
            if low
            else "assumed in local memory"
        )
        yield "local", f"{name}, {size:,} bytes per thread, is indexed at run time: {where}"
    for name in local.functions:
        if local.high:
            yield "local", f"{name} has an array in local memory, for operands of large magnitude"


def _divergence(facts: Facts, texts: Sequence[str]) -> Iterator[str]:
    if not facts.branches and not facts.unknown:
        yield "none: no guard, no condition, and uniform trip counts in every warp"
    for branch, text in zip(facts.branches, texts, strict=True):
        yield f"{text}: {_divergence_text(branch)}"
    if facts.choices:
        yield f"{_count(facts.choices, 'choice')} inside expressions, compiled to selects without branches"


def _divergence_text(branch: BranchFacts) -> str:
    divergence = branch.parting
    if divergence is None:
        return f"unknown: {branch.reason}"
    what = "warp iterations" if branch.kind == "loop" else "warps"
    paths = "2 paths" if divergence.mixed_warps else "1 path each"
    kept = (
        f"{divergence.taken / divergence.lanes:.1%} of the lanes continue" if divergence.lanes else "no lane reaches it"
    )
    return f"{divergence.mixed_warps:,} of {divergence.warps:,} {what} diverge, {paths}; {kept}"


def _constant(facts: Facts) -> Iterator[Sentence]:
    constant = facts.constant
    if not constant.bytes_used:
        return
    share = f"{constant.bytes_used:,} of {constant.budget:,} bytes"
    if constant.loads is None or constant.requests is None:
        reason = facts.unknown or "an address depends on data"
        yield "constants", f"{share}; the requests of its reads are unknown: {reason}"
    elif not constant.loads:
        yield "constants", f"{share}; only scalars are read from it, at uniform addresses"
    elif constant.is_uniform and constant.requests == constant.loads:
        yield "constants", f"{share}; every read is uniform: one request per warp load, {constant.loads:,} in all"
    elif constant.is_uniform:
        count = f"{constant.requests:,} requests for {constant.loads:,} warp loads"
        yield "constants", f"{share}; every read is uniform, a broadcast to the lanes of each request: {count}"
    else:
        yield (
            "constants",
            f"{share}; reads are serialised: {constant.requests:,} requests for {constant.loads:,} warp loads, one per "
            "distinct address",
        )
    if beyond := excess(constant.bytes_read, constant.cache_bytes, constant.first_level_bytes):
        yield "constants", beyond


def _work(work: Work) -> str:
    parts = [f"{count:,} FLOP in {kind}" for kind, count in work.flop]
    if work.functions:
        parts.append(f"{work.functions:,} of them multi-instruction functions")
    if work.integer:
        parts.append(f"{work.integer:,} integer operations")
    if not parts:
        return "no arithmetic on values"
    return f"{'' if work.exact else 'at most '}{', '.join(parts)}"


def _traffic(traffic: Traffic) -> Iterator[str]:
    bound = "" if traffic.exact else "at most "
    yield f"{bound}{traffic.read:,} bytes requested by reads of global memory, {traffic.written:,} by writes"
    if traffic.moved is None:
        yield "the sectors moved are unknown: an address depends on data"
    elif traffic.efficiency is not None:
        use = f"{traffic.efficiency:.1%} of them requested"
        if traffic.efficiency > 1:
            use = f"{traffic.efficiency:.2f} bytes requested per byte moved, since lanes of a warp share elements"
        yield f"{traffic.moved:,} bytes in the sectors moved: {use}"
    constants = f", {traffic.constant:,} of them constants" if traffic.constant else ""
    yield f"{traffic.compulsory:,} bytes are compulsory: each array once{constants}"
    if traffic.untiled not in (0, traffic.read):  # 0 where only matrix loads read
        yield (
            f"{traffic.untiled:,} bytes would be read without tiles: shared memory and registers reuse each byte "
            f"{traffic.reuse:.2f} times"
        )


def _roofline(roofline: Roofline, work: Work) -> Iterator[str]:
    if not work.all_flop:
        seconds = roofline.best.seconds
        yield f"no floating-point work: {roofline.device} needs {time_text(seconds)} for the compulsory bytes alone"
        return
    tensor_units = [unit_text(kind) for kind in roofline.units if kind.startswith("tensor")]
    units = f" on {' and '.join(tensor_units)}" if tensor_units else ""
    yield (
        f"{roofline.device} peaks at {roofline.peak / 1e9:,.1f} GFLOP/s{units} and "
        f"{roofline.bandwidth / 1e9:,.1f} GB/s: ridge point at {roofline.ridge:.1f} FLOP/B"
    )
    peak = "the peak"
    if roofline.idle:
        peak = "that peak"
        yield (
            f"its {unit_text(roofline.idle)} peak at {roofline.idle_peak / 1e9:,.1f} GFLOP/s and are idle: "
            f"{roofline.idle_reason}"
        )
    for ceiling in roofline.ceilings:
        yield f"{ceiling.intensity:.4g} FLOP/B {_LEVELS[ceiling.name]}: {_bound(ceiling, peak)}"
    for level in roofline.levels:
        at_most = "" if level.is_complete else "at most "
        yield (
            f"{level.name} has {level.bandwidth / 1e9:,.1f} GB/s: {at_most}{level.ceiling.intensity:.4g} FLOP/B, "
            f"{_bound(level.ceiling, peak)}"
        )


def _bound(ceiling: Ceiling, peak: str) -> str:
    limit = "memory-bound" if ceiling.is_memory_bound else "compute-bound"
    return (
        f"{ceiling.flop_per_s / 1e9:,.1f} GFLOP/s at most, {ceiling.share:.1%} of {peak}, {limit}; "
        f"{time_text(ceiling.seconds)} at least"
    )


def _host_memory(host: HostBytes, device: str) -> str:
    figures = [f"{host.read:,} bytes are read"] if host.read else []
    figures += [f"{host.written:,} bytes are written"] if host.written else []
    moved = " and ".join(figures)
    link = "the link to the host"
    if host.seconds is not None:
        rate = f"{time_text(host.seconds)} at {host.bandwidth / 1e9:.1f} GB/s"
        link = f"{host.link}, the link of {device} to its host: {rate}"
    if host.allocation == "mapped":
        return f"{host.array} is in mapped memory of the host, not of the device: at least {moved} over {link}"
    return f"{host.array} is in managed memory: {moved} over {link}, once, if its pages are on the host"


def _hiding(hiding: LatencyHiding, device: str) -> Iterator[str]:
    latency = hiding.latency
    mark = "assumed: " if latency.assumed else ""
    loads = "each load" if hiding.loads_together == 1 else f"every {hiding.loads_together} loads"
    verdict = "enough" if hiding.warps_held >= hiding.warps_needed else "too few"
    yield (
        f"{hiding.warps_needed} warps per scheduler hide {latency.cycles} cycles with "
        f"{hiding.instructions_between:.1f} instructions for {loads}; {hiding.warps_held:g} are resident: "
        f"{verdict} ({mark}{latency.source})"
    )
    yield from _in_flight(hiding, device, f"{hiding.bytes_per_thread} per thread")


def _in_flight(loads: LatencyHiding | CopiesInFlight, device: str, where: str) -> Iterator[str]:
    yield (
        f"{loads.bytes_in_flight:,} bytes in flight per SM, {where}; {device} needs "
        f"{loads.bytes_needed:,.0f} by Little's law, unloaded: {loads.bandwidth_share:.0%} of its bandwidth"
    )
    if loads.latency.saturating_bytes:
        yield (
            f"{loads.latency.saturating_bytes:,} bytes in flight per SM were measured to saturate {device}: this has "
            f"{min(1.0, loads.bytes_in_flight / loads.latency.saturating_bytes):.0%} of them"
        )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def growth_text(share: float | None) -> str:
    """`-97%` with two digits, more of whole percents; empty without a change."""
    if not share:
        return ""
    percent = 100 * share
    return f"{percent:+,.0f}%" if abs(percent) >= 100 else f"{percent:+.2g}%"


def time_text(seconds: float) -> str:
    """A time with three digits: `1.25 µs`."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
