"""Times each step of the GEMM ladder at 4096³, interleaved with cuBLAS.

    python -m benchmarks.gemm.ladder docs/results/ladder_h200.json
    python -m benchmarks.gemm.ladder_page

The second line renders docs/ladder.md from the file, and from the analysis of each step.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from benchmarks.gemm.products_cases import CUBLASLT
from benchmarks.timing.case_list import main
from benchmarks.timing.cases import Case

SIDE = 4096
_FOLDER = Path(__file__).parents[2] / "specs"
SPECS, BF16_SPECS = _FOLDER / "product_ladder.yaml", _FOLDER / "product_ladder_bf16.yaml"


def steps(specs: Path = SPECS) -> tuple[str, ...]:
    """Specs of the steps of a ladder, at the timed size."""
    timed = f"params: {{M: {SIDE}, N: {SIDE}, K: {SIDE}}}"
    return tuple(re.sub(r"params: \{.*\}", timed, text) for text in specs.read_text().split("---\n"))


def cases(specs: Path = SPECS) -> tuple[Case, ...]:
    """Cases of the steps."""
    return tuple(Case(_name(text), "ladder", text, against=("torch",), called=(CUBLASLT,)) for text in steps(specs))


def _name(text: str) -> str:
    (line,) = (line for line in text.splitlines() if line.startswith("kernel: "))
    return line.removeprefix("kernel: ")


if __name__ == "__main__":
    sys.exit(main(__doc__, cases(), budget_us=2e5))
