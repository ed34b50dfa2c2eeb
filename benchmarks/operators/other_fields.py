"""Times operators of other fields than neural networks on the GPU: codecs, quantisation, physics, statistics, graphs.

    python -m benchmarks.operators.other_fields docs/results/other_fields_h200.json [--seconds 95] [--resume]

The specs are the documents of `other_fields.yaml`. Peers are a copy of the same bytes and PyTorch's eager functions of
a translated spec, where there are such functions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing.case_list import main
from benchmarks.timing.cases import Case

_BUDGET_US = 6e3  # microseconds


def cases() -> Iterator[Case]:
    for text in Path(__file__).with_suffix(".yaml").read_text().split("---\n"):
        (name,) = re.findall(r"^kernel: (\w+)$", text, re.MULTILINE)
        yield Case(name, "other fields", text, against=("torch",))


if __name__ == "__main__":
    sys.exit(main(__doc__, list(cases()), budget_us=_BUDGET_US))
