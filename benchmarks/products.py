"""Times GEMMs next to cuBLAS (by way of PyTorch, of CuPy, and cuBLASLt at its best) and Triton.

    python benchmarks/tune_products.py benchmarks/cugen.lock
    python benchmarks/products.py docs/results/products_h200.json --lock benchmarks/cugen.lock
    python benchmarks/products_page.py

Shapes that the lock file has entries for are tuned; for the others the generator picks by its model, and their rows
say so. The last line renders the page from the file.
"""

from __future__ import annotations

import sys

from case_list import main
from products_cases import cases

_BUDGET_US = 6e5  # 100 samples of up to 6 ms, fewer of slower ones

if __name__ == "__main__":
    sys.exit(main(__doc__, cases(), budget_us=_BUDGET_US, tuned=True))
