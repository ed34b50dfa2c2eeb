"""Global memory: the transactions of one warp instruction, by the rule of each generation.

Sources: CUDA programming guide 4.2, appendix F.3.2 (1.x), F.4.2 (2.x), F.5.2 (3.x); current programming guide and best
practices guide (5.0 and later); counters of an sm_90 device.
"""

from __future__ import annotations

from cugen.machine import Target
from cugen.machine.requests.warp import SECTOR, WARP, Lanes, WarpRequest, active, parts
from cugen.machine.target import Cache

Transaction = tuple[int, int]  # address, bytes

LINE = 128  # bytes

SOME_LANES = "1.0 and 1.1 issue 16 transactions for a half-warp out of order; inactive lanes are taken to need none"
ATOMICS = "the transactions of global atomics are documented for no target"


def request(kind: str, width: int, lanes: Lanes, target: Target, cache: Cache | None) -> WarpRequest:
    """The cost of an access; `cache` says where loads of 2.x to 5.x are cached, None as the target does by itself."""
    assumption = ATOMICS if kind == "atomic" else ""
    if target.global_rule == "in_order":
        return _in_order(width, lanes, target, assumption)
    if target.global_rule == "segments":
        return _segments(width, lanes, target, assumption)
    granule = SECTOR
    if target.global_rule == "lines" and kind == "load" and (cache or target.global_cache) == "l1":
        granule = LINE
    pieces = parts(lanes, WARP * 4 // max(4, width) if target.global_split else WARP)
    groups = [lanes] if target.global_rule == "sectors" else pieces
    transactions = [part for group in groups for part in _granules(width, group, granule)]
    ideal = sum(_packed(width, group, granule) for group in groups)
    return _of(len(pieces), transactions, ideal, assumption)


def _of(requests: int, transactions: list[Transaction], ideal_bytes: int, assumption: str) -> WarpRequest:
    return WarpRequest(
        requests,
        transactions=tuple(transactions),
        sectors=sum(size for _, size in transactions) // SECTOR,
        ideal_sectors=ideal_bytes // SECTOR,
        assumption=assumption,
    )


def _granules(width: int, lanes: Lanes, granule: int) -> list[Transaction]:
    """Each aligned piece of memory that some lane touches, lowest first; naturally aligned accesses never straddle."""
    return [(start * granule, granule) for start in sorted({address // granule for address in active(lanes)})]


def _packed(width: int, lanes: Lanes, granule: int) -> int:
    """Bytes moved if the distinct elements lay side by side from an aligned address."""
    return -(-len(set(active(lanes))) * width // granule) * granule


def _segments(width: int, lanes: Lanes, target: Target, assumption: str) -> WarpRequest:
    size = {1: 32, 2: 64}.get(width, LINE)
    halves = parts(lanes, target.request_lanes)
    transactions = []
    for half in halves:
        waiting = active(half)
        while waiting:
            start = waiting[0] // size * size
            inside = [address for address in waiting if address // size * size == start]
            waiting = [address for address in waiting if address // size * size != start]
            transactions.append(_halved(start, size, min(inside), max(inside) + width))
    return _of(len(halves), transactions, sum(_packed(width, half, SECTOR) for half in halves), assumption)


def _halved(start: int, size: int, first: int, stop: int) -> Transaction:
    """The smallest half of a half of the segment, of 32 bytes at least, that holds the bytes from first to stop."""
    while size > SECTOR:
        half = size // 2
        if stop <= start + half:
            size = half
        elif first >= start + half:
            start, size = start + half, half
        else:
            break
    return start, size


def _in_order(width: int, lanes: Lanes, target: Target, assumption: str) -> WarpRequest:
    halves = parts(lanes, target.request_lanes)
    transactions: list[Transaction] = []
    ideal = 0
    for half in halves:
        together = width * len(half)
        size = min(together, LINE)
        bases = {address - lane * width for lane, address in enumerate(half) if address is not None}
        apart = [(address // SECTOR * SECTOR, SECTOR) for address in active(half)]
        base = min(bases)
        if width >= 4 and len(bases) == 1 and base % size == 0:
            transactions += [(start, size) for start in range(base, base + together, size)]
            ideal += together
            continue
        transactions += apart
        ideal += min(together, SECTOR * len(apart)) if width >= 4 else SECTOR * len(apart)
        if None in half:
            assumption = assumption or SOME_LANES
    return _of(len(halves), transactions, ideal, assumption)
