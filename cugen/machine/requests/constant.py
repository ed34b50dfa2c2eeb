"""Constant memory: one request per distinct address.

Sources: CUDA programming guide, constant memory (4.2: F.3.1, F.4.4, F.5.4); counters of an sm_90 device, where an
LDC.64 with 6 distinct addresses made 6 requests and 5 replays. Wider loads compile to several 8-byte ones.
"""

from __future__ import annotations

from cugen.machine import Target
from cugen.machine.requests.warp import WORD_BYTES, Lanes, WarpRequest, active, lane_groups

WIDE_UNMEASURED = "one request per address for 8-byte constant loads was measured on sm_90 only"
_MAX_BYTES_PER_LOAD = 8
NARROW_UNMEASURED = "whether two addresses within one word of constant memory are two requests was not measured"


def request(width: int, lanes: Lanes, target: Target) -> WarpRequest:
    """Cost of a load; 1.x serves half-warps separately."""
    count = max(1, width // _MAX_BYTES_PER_LOAD)
    groups = lane_groups(lanes, target.request_lanes)
    distinct = [sorted(set(active(group))) for group in groups]
    requests = count * sum(map(len, distinct))
    assumption = ""
    if width > WORD_BYTES and not target.measured:
        assumption = WIDE_UNMEASURED
    elif any(len({address // WORD_BYTES for address in addresses}) < len(addresses) for addresses in distinct):
        assumption = NARROW_UNMEASURED
    return WarpRequest(requests, requests, count * len(groups), assumption=assumption)
