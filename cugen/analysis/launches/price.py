"""Price of a plan: modelled time and traffic of its launches on a device, and the bounds of both.

The model is a roofline with more than one roof, without what a compiler decides. It compares plans of one spec; a
measured time is longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cugen.analysis.launches.facts import Facts, facts
from cugen.analysis.totals.budget import Unknown
from cugen.analysis.verdicts.report import UNKNOWN_LOCALITY, AccessReport, KernelReport, analyze_kernel
from cugen.machine import Device, default_device
from cugen.machine.bandwidth import L2_TO_DRAM_BANDWIDTH
from cugen.machine.latency import BLOCK_START_CYCLES, EMPTY_LAUNCH_SECONDS, issue_rate, memory_latency
from cugen.machine.requests.warp import SECTOR_BYTES
from cugen.plan.kernel import Plan


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a launch, or the sum over those of a plan.

    seconds: modelled time. bound_seconds: every compulsory byte once at the bandwidth of device memory, or the
    arithmetic at its peak. moved: bytes of the sectors that warps request from L2 and device memory. compulsory: bytes
    of the arrays, each element once. limiter: what takes longest in the longest launch; bound_limiter: `memory` or
    `arithmetic`. is_complete: whether the cost of every access is known; else `seconds` is a lower bound.
    """

    seconds: float
    bound_seconds: float
    moved: int
    compulsory: int
    limiter: str
    bound_limiter: str
    is_complete: bool = True

    def exceeds(self, better: Price, ratio: float) -> bool:
        """Whether the time is more than `ratio` times that of a better plan, or the traffic where that plan isn't
        slower. A time that is a lower bound proves nothing of a better plan."""
        if not better.is_complete:
            return self.moved > ratio * better.moved
        is_slower = self.seconds > ratio * better.seconds
        return is_slower or (self.moved > ratio * better.moved and self.seconds >= better.seconds)

    @property
    def bound(self) -> Price:
        """The bound as a price: not less than an empty kernel takes."""
        seconds = max(self.bound_seconds, EMPTY_LAUNCH_SECONDS)
        return Price(seconds, self.bound_seconds, self.compulsory, self.compulsory, "", self.bound_limiter)


def plan_prices(
    plan: Plan, params: Mapping[str, int], device: Device | None = None, reports: Sequence[KernelReport] = ()
) -> tuple[Price, ...]:
    """The price of each launch, by default on the default device of the target.

    params: by their names in the spec. reports: of the launches at these sizes, if they are made already. Raises
    Unknown for a target without a device, for params without a value, and for traffic that depends on data.
    """
    context = plan.context
    target = context.spec.target
    chosen = device or default_device(target)
    if chosen is None:
        raise Unknown(f"the table has no device of {target}")
    known = {p.name: p.value for p in context.spec.params if p.value is not None} | dict(params)
    if missing := [name for name in context.symbols if name not in known]:
        raise Unknown(f"{' and '.join(missing)} {'has' if len(missing) == 1 else 'have'} no value")
    values = {str(symbol): known[name] for name, symbol in context.symbols.items()}
    prices = []
    analysed = reports or (analyze_kernel(launch, target, values) for launch in plan.kernels)
    for launch, report in zip(plan.kernels, analysed, strict=True):
        launch_facts = facts(launch, context, target, values, device=chosen, accesses=report.accesses)
        prices.append(launch_price(launch_facts, report.accesses, chosen))
    return tuple(prices)


def launch_price(launch: Facts, accesses: Sequence[AccessReport], device: Device) -> Price:
    """The price of a launch: the time of what takes longest, scaled by the imbalance of its last wave. Raises Unknown
    where the analysis does."""
    blocks, traffic, done = launch.launch.blocks, launch.traffic, launch.work
    if launch.unknown or traffic is None or done is None or launch.issue_slots is None or not blocks:
        raise Unknown(launch.unknown or f"the size of {launch.kernel} is unknown")
    if traffic.touched is None or traffic.moved is None:
        is_2d = any(report.access.array.texture_2d is not None for report in accesses)
        raise Unknown(UNKNOWN_LOCALITY if is_2d else "an address depends on data")
    sectors = cycles = 0
    for report in accesses:
        if report.totals is None:
            continue
        if report.space in ("global", "local"):
            sectors += report.totals.sectors
        else:
            cycles += report.totals.wavefronts if report.space == "shared" else report.totals.requests
    latency = memory_latency(device)
    peak = launch.roofline.peak if launch.roofline else device.peak()
    on_chip = {
        "L2": sectors * SECTOR_BYTES / (device.bandwidth * L2_TO_DRAM_BANDWIDTH),
        "shared and constant memory": cycles / (device.sms * latency.clock),
        "instructions": launch.issue_slots / issue_rate(device),
        "arithmetic": done.all_flop / peak,
    }
    uneven = -(-blocks // device.sms) * device.sms / blocks
    limits = {name: seconds * uneven for name, seconds in on_chip.items()}
    limits |= {"the start of blocks": blocks * BLOCK_START_CYCLES / latency.clock}
    limits |= {"memory": _memory_seconds(launch, accesses, device), "launch": EMPTY_LAUNCH_SECONDS}
    bounds = {"memory": traffic.compulsory / device.bandwidth, "arithmetic": done.all_flop / peak}
    return Price(
        seconds=max(limits.values()),
        bound_seconds=max(bounds.values()),
        moved=traffic.moved,
        compulsory=traffic.compulsory,
        limiter=max(limits, key=lambda name: limits[name]),
        bound_limiter=max(bounds, key=lambda name: bounds[name]),
        is_complete=all(report.totals is not None for report in accesses),
    )


def _memory_seconds(launch: Facts, accesses: Sequence[AccessReport], device: Device) -> float:
    """The time of what is moved, at the share of the bandwidth that the bytes in flight sustain: of what threads load
    theirs, of all else those of the stages that TMA fills, if there are any."""
    traffic, loads, copies = launch.traffic, launch.hiding, launch.copies
    assert traffic is not None
    assert traffic.touched is not None
    if loads is None or copies is None:
        only = loads or copies
        return traffic.touched / (device.bandwidth * (only.bandwidth_share if only else 1.0))
    loaded = {report.access.array.symbol for report in accesses if report.access.kind == "load"}
    rows = (row for row in traffic.arrays if row.direction == "read" and row.array in loaded)
    by_threads = sum(row.touched or 0 for row in rows)
    others = traffic.touched - by_threads
    return (by_threads / loads.bandwidth_share + others / copies.bandwidth_share) / device.bandwidth


def total(prices: Sequence[Price]) -> Price:
    """The sum over launches, with the limiters of the longest one."""
    longest = max(prices, key=lambda price: price.seconds)
    return Price(
        sum(price.seconds for price in prices),
        sum(price.bound_seconds for price in prices),
        sum(price.moved for price in prices),
        sum(price.compulsory for price in prices),
        longest.limiter,
        max(prices, key=lambda price: price.bound_seconds).bound_limiter,
        all(price.is_complete for price in prices),
    )
