"""Times every case of `memory_bound_cases.py` on the GPU, interleaved with a device copy, PyTorch, its
compiler and CuPy.

    python benchmarks/memory_bound.py docs/results/memory_bound_h200.json
    python benchmarks/memory_bound_page.py

The second line renders the page from the file.
"""

from __future__ import annotations

import sys

from case_list import main
from memory_bound_cases import cases

_BUDGET_US = 4e5  # microseconds: 100 samples of up to 4 ms, fewer of slower ones

if __name__ == "__main__":
    sys.exit(main(__doc__, cases(), budget_us=_BUDGET_US))
