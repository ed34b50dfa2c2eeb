"""Times each step of the bfloat16 GEMM ladder at 4096³, interleaved with cuBLAS.

    python -m benchmarks.gemm.tensor_ladder docs/results/ladder_bf16_h100.json
    python -m benchmarks.gemm.ladder_page

The second line renders docs/ladder.md from the file, and from the analysis of each step.
"""

from __future__ import annotations

import sys

from benchmarks.gemm.ladder import BF16_SPECS, cases
from benchmarks.timing.case_list import main

if __name__ == "__main__":
    sys.exit(main(__doc__, cases(BF16_SPECS), budget_us=2e5))
