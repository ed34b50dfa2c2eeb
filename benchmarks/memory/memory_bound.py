"""Times every case of `memory_bound_cases.py` on the GPU, interleaved with a device copy, PyTorch, its
compiler and CuPy.

    python -m benchmarks.memory.memory_bound docs/results/memory_bound_h200.json
    python -m benchmarks.memory.memory_bound_page

The second line renders the page from the file.
"""

from __future__ import annotations

import sys

from benchmarks.memory.memory_bound_cases import cases
from benchmarks.timing.case_list import main

_BUDGET_US = 4e5  # microseconds: 100 samples of up to 4 ms, fewer of slower ones

if __name__ == "__main__":
    sys.exit(main(__doc__, cases(), budget_us=_BUDGET_US))
