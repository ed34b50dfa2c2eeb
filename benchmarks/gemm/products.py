"""Times GEMMs, interleaved with cuBLAS (through PyTorch, CuPy and the best cuBLASLt algorithm) and Triton.

    python -m benchmarks.gemm.tune_products benchmarks/gemm/cugen.lock
    python -m benchmarks.gemm.products docs/results/products_h200.json --lock benchmarks/gemm/cugen.lock
    python -m benchmarks.gemm.products_page

Shapes with an entry in the lock file are tuned; the others use the generator's cost model, as their rows say. The last
line renders the page from the file.
"""

from __future__ import annotations

import sys

from benchmarks.gemm.products_cases import cases
from benchmarks.timing.case_list import main

_BUDGET_US = 6e5  # microseconds: 100 samples of up to 6 ms, fewer of slower ones

if __name__ == "__main__":
    sys.exit(main(__doc__, cases(), budget_us=_BUDGET_US, tuned=True))
