"""Renders the tables of `docs/ladder.md`: analysis of each step, and its measured times.

python -m benchmarks.gemm.ladder_page [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gemm.ladder import BF16_SPECS, SIDE, SPECS, steps
from benchmarks.timing.page_parts import replaced, write
from cugen import analyze, generate
from cugen.spec.load import load_text

ROOT = Path(__file__).parents[2]
_RESULTS = ROOT / "docs" / "results"
RESULTS, BF16_RESULTS = _RESULTS / "ladder_h200.json", _RESULTS / "ladder_bf16_h100.json"
# The specs and measured times of each table, by the mark before it.
TABLES = {"steps": (SPECS, RESULTS), "tensor core steps": (BF16_SPECS, BF16_RESULTS)}
PAGE = ROOT / "docs" / "ladder.md"
_WARP, _SECTOR_BYTES = 32, 32


@dataclass(frozen=True)
class Step:
    """Traffic of a kernel: shared-memory wavefronts per warp FMA, and FMAs per byte of global sectors."""

    kernel: str
    family: str
    shared: float
    intensity: float


def analysed(text: str) -> Step:
    """Analyses a step, given its spec."""
    (spec,) = load_text(text)
    kernel = generate(spec, remarks="none")
    (launch,), (planned,) = analyze(kernel).kernels, kernel.plan.kernels
    adds = SIDE**3
    wavefronts = sum(a.totals.wavefronts for a in launch.accesses if a.totals and a.space == "shared")
    sectors = sum(a.totals.sectors for a in launch.accesses if a.totals and a.space in ("global", "readonly"))
    return Step(spec.kernel, planned.family, wavefronts * _WARP / adds, adds / (sectors * _SECTOR_BYTES))


def table(steps: Sequence[Step], content: Mapping[str, Any] | None) -> str:
    """Table between the page's marks. `content`: figures of `ladder.py`."""
    lines = list(_rows(steps, {row["name"]: row for row in content["cases"]} if content else {}))
    if content:
        lines = [
            f"{content['device']}; {content['date']}; cugen {content['cugen']}; `{content['command']}`",
            "",
            *lines,
        ]
    return "\n".join(lines) + "\n"


def _rows(steps: Sequence[Step], timed: Mapping[str, Any]) -> Iterator[str]:
    head = "| step | family | shared wavefronts ÷ warp's multiply-adds | multiply-adds ÷ byte of global memory |"
    yield head + (" TFLOP/s, cold | of cuBLAS |" if timed else "")
    yield "|---|---|---|---|" + ("---|---|" if timed else "")
    for step in steps:
        name = f"[{step.kernel}](../generated/{step.kernel}.cu)"
        line = f"| {name} | {step.family} | {step.shared:.3f} | {step.intensity:.2f} |"
        yield line + (_speed(timed[step.kernel]) if step.kernel in timed else "")


def _speed(row: Mapping[str, Any]) -> str:
    contenders = {contender["name"]: contender for contender in row["regimes"]["cold"]}
    ours = contenders.pop("cugen")
    best = min(contender["ratio"] for name, contender in contenders.items() if name in ("torch", "cublasLt"))
    return f" {2e-6 * SIDE**3 / ours['median_us']:.1f} | {best:.3f} |"


def main() -> int:
    page = PAGE.read_text()
    for mark, (specs, results) in TABLES.items():
        content = json.loads(results.read_text()) if results.exists() else None
        page = replaced(page, mark, "end", table([analysed(step) for step in steps(specs)], content))
    return write({PAGE: page}, __doc__)


if __name__ == "__main__":
    sys.exit(main())
