"""Reasons for the requests of constant reads, and the capacity of the constant cache that they assume."""

from __future__ import annotations

from collections import Counter

from cugen.analysis.totals.exact import Pattern, Totals
from cugen.analysis.verdicts import global_reasons
from cugen.analysis.verdicts.subjects import Subject, lane_indices, lane_ranges
from cugen.machine import Target
from cugen.machine.requests.warp import WARP_SIZE, active, lane_groups
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Array
from cugen.plan.symbols import Range, Ranges, bounds
from cugen.plan.traversal.walking import accesses


def bytes_read(kernel: Kernel) -> int:
    """Bytes of constant arrays that the kernel reads, at most: of each those from the first to the last element that
    its subscripts may name."""
    ranges = dict(kernel.ranges)
    elements: dict[Array, Range] = {}
    for access in accesses(kernel.body):
        if access.array.space == "constant":
            first, last = bounds(access.offset(), ranges)
            low, high = elements.get(access.array, (first, last))
            elements[access.array] = min(low, first), max(high, last + access.width - 1)
    return sum(
        (min(high, _last(array, ranges)) - max(low, 0) + 1) * array.dtype.bytes
        for array, (low, high) in elements.items()
    )


def _last(array: Array, ranges: Ranges) -> int:
    """Offset of the last element."""
    steps = zip(array.shape, array.strides, strict=True)
    return sum((bounds(extent, ranges)[1] - 1) * bounds(stride, ranges)[1] for extent, stride in steps)


def doubt(constant_bytes: int, target: Target) -> str:
    """What the cost of a read assumes, where a kernel reads more constants than an SM caches; else empty."""
    cache = target.constant_cache_bytes
    return f"the read hits the constant cache of {cache:,} bytes" if constant_bytes > cache else ""


def excess(constant_bytes: int, cache: int, first_level: int) -> str:
    """Which level of the cache the constants of a kernel exceed; empty if they fit the first."""
    reads = f"the kernel reads up to {constant_bytes:,} bytes of constants"
    if constant_bytes > cache:
        return f"{reads}, and an SM caches {cache:,}"
    if constant_bytes > first_level:
        return f"{reads}, more than the {first_level:,} of the cache's first level, and an SM caches {cache:,}"
    return ""


def cause(subject: Subject, worst: Pattern) -> str:
    """Clause of a claim."""
    addresses = _addresses_per_request(subject, worst)
    text = "uniform address" if addresses == 1 else f"serialised: {addresses} addresses"
    exceeds_cache = subject.constant_bytes > subject.target.constant_cache_bytes
    return f"{text}; exceeds the cache" if exceeds_cache else text


def reason(subject: Subject, totals: Totals) -> str:
    """Derivation from the address formula, and the level of the cache that the kernel's constants exceed."""
    address = f"address = {global_reasons.address_formula(subject)}"
    target = subject.target
    beyond = excess(subject.constant_bytes, target.constant_cache_bytes, target.constant_first_level_bytes)
    parts = (address, lane_ranges(lane_indices(subject)), _requests(subject, totals), beyond)
    return "; ".join(filter(None, parts))


def _requests(subject: Subject, totals: Totals) -> str:
    counts = Counter[int]()
    for pattern in totals.patterns:
        counts[_addresses_per_request(subject, pattern)] += pattern.warps
    whole = subject.target.request_lanes == WARP_SIZE
    if list(counts) == [1]:
        return f"uniform: one address per {'warp' if whole else 'half-warp'}"
    max_addresses = max(counts)
    times = "" if len(counts) == 1 else f" in {counts[max_addresses]:,} of {totals.warps:,} warps"
    return f"serialised: {max_addresses} addresses{'' if whole else ' of a half-warp'}{times}"


def _addresses_per_request(subject: Subject, pattern: Pattern) -> int:
    """The most distinct addresses of the lanes that one constant load serves."""
    return max(len(set(active(group))) for group in lane_groups(pattern.lanes, subject.target.request_lanes))
