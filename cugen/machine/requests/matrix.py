"""ldmatrix and stmatrix: one phase per 8×16-byte matrix (counters of an sm_90 device)."""

from __future__ import annotations

from cugen.machine import Target
from cugen.machine.requests.warp import Lanes, WarpRequest, active, conflict_degree, lane_groups, words_touched

ROWS = 8  # rows per matrix, one address lane each
ROW_BYTES = 16
UNMEASURED = "matrix loads and stores are documented for no target; measured on sm_90 only"


def request(lanes: Lanes, target: Target) -> WarpRequest:
    """Cost of x1, x2 or x4: the first 8, 16 or 32 lanes hold the row addresses."""
    rows = len(active(lanes))
    if rows not in (ROWS, 2 * ROWS, 4 * ROWS) or None in lanes[:rows]:
        raise ValueError(f"matrix loads and stores take row addresses in the first 8, 16 or 32 lanes, not in {rows}")
    matrices = lane_groups(lanes, ROWS)
    wavefronts = sum(conflict_degree(words_touched(matrix, ROW_BYTES), target.banks) for matrix in matrices)
    return WarpRequest(1, wavefronts, len(matrices), assumption="" if target.measured else UNMEASURED)
