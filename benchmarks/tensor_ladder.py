"""Times each step of the bfloat16 GEMM ladder at 4096³, interleaved with cuBLAS.

    python benchmarks/tensor_ladder.py docs/results/ladder_bf16_h100.json
    python benchmarks/ladder_page.py

The second line renders docs/ladder.md from the file, and from the analysis of each step.
"""

from __future__ import annotations

import sys

from case_list import main
from ladder import BF16_SPECS, cases

if __name__ == "__main__":
    sys.exit(main(__doc__, cases(BF16_SPECS), budget_us=2e5))
