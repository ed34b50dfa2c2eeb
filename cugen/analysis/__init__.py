"""What a kernel costs: the requests of a warp, occupancy, divergence and the roofline.

`warp_request` and `occupancy` are public and exact; where hardware does something that no document states and no
counter has shown, the answer says `assumed` and why.
"""

from cugen.machine.occupancy import NextStep, Occupancy, next_step, occupancy
from cugen.machine.requests.request import WarpRequest, warp_request

__all__ = ["NextStep", "Occupancy", "WarpRequest", "next_step", "occupancy", "warp_request"]
