"""Times operators of neural networks and of numerical work on the GPU, interleaved with PyTorch's functions.

    python -m benchmarks.operators.operators docs/results/operators_h200.json [--seconds 240] [--resume]
    python -m benchmarks.operators.operators_page

The operators are those of `operator_cases/`, at full size. Convolutions have two peers of PyTorch, without and with
`torch.backends.cudnn.benchmark`; torch.compile is a peer of some cases, since it takes seconds for each. `--only` takes
a class, `--seconds` and `--resume` measure the list in pieces. The second line renders the page from the file.
"""

from __future__ import annotations

import sys

from benchmarks.operators.operator_cases import operators
from benchmarks.timing.case_list import main

_BUDGET_US = 4e4  # microseconds: 100 samples of up to 0.4 ms, fewer of slower ones

if __name__ == "__main__":
    sys.exit(main(__doc__, [operator.case() for operator in operators()], budget_us=_BUDGET_US))
