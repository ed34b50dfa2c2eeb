"""Times GEMMs, interleaved with cuBLAS (through PyTorch, CuPy and the best cuBLASLt algorithm) and Triton.

    python benchmarks/tune_products.py benchmarks/cugen.lock
    python benchmarks/products.py docs/results/products_h200.json --lock benchmarks/cugen.lock
    python benchmarks/products_page.py

Shapes with an entry in the lock file are tuned; the others use the generator's cost model, as their rows say. The last
line renders the page from the file.
"""

from __future__ import annotations

import sys

from case_list import main
from products_cases import cases

_BUDGET_US = 6e5  # microseconds: 100 samples of up to 6 ms, fewer of slower ones

if __name__ == "__main__":
    sys.exit(main(__doc__, cases(), budget_us=_BUDGET_US, tuned=True))
