"""Codes of the findings of `cugen check`, with the titles of their pages under `cugen/explain`."""

from __future__ import annotations

BANK_CONFLICTS = "CG2201"
UNCOALESCED = "CG2202"
SERIALISED_CONSTANTS = "CG2203"
UNPROVED = "CG2204"
MUCH_TRAFFIC = "CG2205"
PARTITION_CAMPING = "CG2206"
UNREQUESTED_FLOAT64 = "CG2301"
WRAPS = "CG2302"
LOW_OCCUPANCY = "CG3201"
SPILLS = "CG3202"
MIXED_WARPS = "CG3203"
LOCAL_MEMORY = "CG3204"
LARGE_GRID = "CG3205"
REFUTED_PIPELINE = "CG3206"
IDLE_LANES = "CG3207"
UNEVEN_WAVES = "CG3208"
SMALL_GRID = "CG3209"
FAR_FROM_BOUND = "CG3210"

CODES: dict[str, str] = {
    BANK_CONFLICTS: "A shared access with bank conflicts",
    UNCOALESCED: "A global access that moves more sectors than it needs",
    SERIALISED_CONSTANTS: "Constants that a warp reads one by one",
    UNPROVED: "A limit that the analysis can't vouch for",
    MUCH_TRAFFIC: "More bytes of global memory than a limit allows",
    PARTITION_CAMPING: "Blocks that wait for one partition of device memory",
    UNREQUESTED_FLOAT64: "Arithmetic in float64 that no type of the spec asks for",
    WRAPS: "An integer that wraps in its type",
    LOW_OCCUPANCY: "Too few warps on an SM",
    SPILLS: "Registers that spill to memory",
    MIXED_WARPS: "Too many warps whose lanes take different ways",
    LOCAL_MEMORY: "Arrays in local memory",
    LARGE_GRID: "Sizes whose grid the target can't launch",
    REFUTED_PIPELINE: "A pipeline whose synchronisation is wrong",
    IDLE_LANES: "Warps with too few active lanes",
    UNEVEN_WAVES: "Waves of blocks that leave too much of the device idle",
    SMALL_GRID: "Too few blocks for the device",
    FAR_FROM_BOUND: "A launch far from its roofline",
}
