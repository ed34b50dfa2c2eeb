"""Constant memory: one request for each distinct address.

Sources: CUDA programming guide, constant memory (4.2: F.3.1, F.4.4, F.5.4); counters of an sm_90 device, where an
LDC.64 for 6 addresses of 8 bytes made 6 requests and 5 replays. Wider loads are compiled to several of 8 bytes.
"""

from __future__ import annotations

from cugen.machine import Target
from cugen.machine.requests.warp import WORD, Lanes, WarpRequest, active, parts

WIDE_UNMEASURED = "that an 8-byte load of constants makes one request for each address was seen on sm_90 only"
_WIDEST = 8  # bytes that one instruction reads
NARROW_UNMEASURED = "whether two parts of one word in constant memory are two addresses was not measured"


def request(width: int, lanes: Lanes, target: Target) -> WarpRequest:
    """The cost of a load; each half-warp is served by itself on 1.x."""
    count = max(1, width // _WIDEST)
    groups = parts(lanes, target.request_lanes)
    distinct = [sorted(set(active(group))) for group in groups]
    requests = count * sum(map(len, distinct))
    assumption = ""
    if width > WORD and not target.measured:
        assumption = WIDE_UNMEASURED
    elif any(len({address // WORD for address in addresses}) < len(addresses) for addresses in distinct):
        assumption = NARROW_UNMEASURED
    return WarpRequest(requests, requests, count * len(groups), assumption=assumption)
