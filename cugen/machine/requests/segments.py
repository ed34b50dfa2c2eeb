"""Global memory: coalescing of one warp instruction into transactions, by generation.

Sources: CUDA programming guide 4.2, appendix F.3.2 (1.x), F.4.2 (2.x), F.5.2 (3.x); current programming guide and best
practices guide (5.0 and later); counters of an sm_90 device.
"""

from __future__ import annotations

from cugen.machine import Target
from cugen.machine.requests.warp import SECTOR_BYTES, WARP_SIZE, Lanes, WarpRequest, active, lane_groups
from cugen.machine.target import Cache

Transaction = tuple[int, int]  # address, bytes

LINE_BYTES = 128  # bytes

SOME_LANES = "1.0 and 1.1 take 16 transactions for an uncoalesced half-warp; inactive lanes are assumed to need none"
ATOMICS = "the transactions of global atomics are undocumented"


def request(kind: str, width: int, lanes: Lanes, target: Target, cache: Cache | None) -> WarpRequest:
    """Cost of an access; `cache` is where loads of 2.x to 5.x are cached, None for the target's default."""
    assumption = ATOMICS if kind == "atomic" else ""
    if target.global_rule == "in_order":
        return _in_order(width, lanes, target, assumption)
    if target.global_rule == "segments":
        return _segments(width, lanes, target, assumption)
    granule = granule_of(kind, target, cache)
    split_requests = lane_groups(lanes, WARP_SIZE * 4 // max(4, width) if target.global_split else WARP_SIZE)
    groups = [lanes] if target.global_rule == "sectors" else split_requests
    transactions = [transaction for group in groups for transaction in _granules(width, group, granule)]
    ideal = sum(_packed(width, group, granule) for group in groups)
    return _of(len(split_requests), transactions, ideal, assumption)


def granule_of(kind: str, target: Target, cache: Cache | None) -> int:
    """Bytes of a transaction from 2.0 on."""
    through_l1 = target.global_rule == "lines" and kind == "load" and (cache or target.global_cache) == "l1"
    return LINE_BYTES if through_l1 else SECTOR_BYTES


def _of(requests: int, transactions: list[Transaction], ideal_bytes: int, assumption: str) -> WarpRequest:
    return WarpRequest(
        requests,
        transactions=tuple(transactions),
        sectors=sum(size for _, size in transactions) // SECTOR_BYTES,
        ideal_sectors=ideal_bytes // SECTOR_BYTES,
        assumption=assumption,
    )


def _granules(width: int, lanes: Lanes, granule: int) -> list[Transaction]:
    """Distinct aligned granules accessed, ascending; naturally aligned accesses never straddle two."""
    return [(start * granule, granule) for start in sorted({address // granule for address in active(lanes)})]


def _packed(width: int, lanes: Lanes, granule: int) -> int:
    """Bytes moved if the distinct elements were contiguous and aligned."""
    return -(-len(set(active(lanes))) * width // granule) * granule


def _segments(width: int, lanes: Lanes, target: Target, assumption: str) -> WarpRequest:
    size = {1: 32, 2: 64}.get(width, LINE_BYTES)
    halves = lane_groups(lanes, target.request_lanes)
    transactions = []
    for half in halves:
        pending = active(half)
        while pending:
            start = pending[0] // size * size
            coalesced = [address for address in pending if address // size * size == start]
            pending = [address for address in pending if address // size * size != start]
            transactions.append(_halved(start, size, min(coalesced), max(coalesced) + width))
    return _of(len(halves), transactions, sum(_packed(width, half, SECTOR_BYTES) for half in halves), assumption)


def _halved(start: int, size: int, first: int, stop: int) -> Transaction:
    """Segment reduced by halves, to 32 bytes at least, while one half holds all bytes from first to stop."""
    while size > SECTOR_BYTES:
        half = size // 2
        if stop <= start + half:
            size = half
        elif first >= start + half:
            start, size = start + half, half
        else:
            break
    return start, size


def _in_order(width: int, lanes: Lanes, target: Target, assumption: str) -> WarpRequest:
    halves = lane_groups(lanes, target.request_lanes)
    transactions: list[Transaction] = []
    ideal = 0
    for half in halves:
        span = width * len(half)
        size = min(span, LINE_BYTES)
        bases = {address - lane * width for lane, address in enumerate(half) if address is not None}
        separate = [(address // SECTOR_BYTES * SECTOR_BYTES, SECTOR_BYTES) for address in active(half)]
        base = min(bases)
        if width >= 4 and len(bases) == 1 and base % size == 0:
            transactions += [(start, size) for start in range(base, base + span, size)]
            ideal += span
            continue
        transactions += separate
        ideal += min(-(-span // SECTOR_BYTES), len(separate)) * SECTOR_BYTES
        if None in half:
            assumption = assumption or SOME_LANES
    return _of(len(halves), transactions, ideal, assumption)
