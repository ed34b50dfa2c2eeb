"""Renders the GEMMs of `docs/measurements.md` and their chart, from the files of `products.py` and `regret.py`.

python -m benchmarks.gemm.products_page [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.timing.page_parts import (
    CHOICE,
    CUBLAS,
    Row,
    contenders,
    cublas_ratio,
    goal_text,
    goals_met,
    heading,
    mean_and_worst,
    replaced,
    us,
    verdict,
    write,
)
from cugen.bench.chart import Axis, Bars, chart
from cugen.bench.protocol import SAMPLES

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "products_h200.json"
LIMITS = ROOT / "docs" / "results" / "product_limits_h200.json"
REGRET = ROOT / "docs" / "results" / "regret_h200.json"
CHART = ROOT / "docs" / "results" / "products_h200.svg"
PAGE = ROOT / "docs" / "measurements.md"
PEERS = ("torch", "cupy", "cublasLt", "triton")
OWN_KINDS = ("float64", "batches")  # groups with summaries of their own, besides float32
_SHARES = ("active_percent", "issue_percent", "fma_percent", "l1_data_percent", "memory_percent")
_AXIS = Axis("speed with cold caches; the fastest way to call cuBLAS is 1", unit=320, maximum=1.6)


def part(content: Row | None, limits: Row | None, regret: Row | None) -> str:
    """Text between the page's marks, from the existing files."""
    lines = list(_products(content)) if content else ["Not measured yet."]
    if content and limits:
        lines += ["", "### What limits GEMMs", "", *_limits(content, limits)]
    if regret:
        lines += ["", "### The pick without tuning", "", *_regret(regret)]
    return "\n".join(lines) + "\n"


def picture(content: Row) -> str:
    """Chart of all speeds relative to the fastest way to call cuBLAS."""
    bars = []
    for row in content["cases"]:
        cold = contenders(row, "cold")
        best = cublas_ratio(cold)
        if best is not None:
            speeds = [(name, best / cold[name]["ratio"]) for name in ("cugen", *PEERS) if name in cold]
            bars.append(Bars(row["name"], tuple(speeds)))
    return chart(f"GEMMs on {content['device']}", bars, _AXIS)


def _products(content: Row) -> Iterator[str]:
    rows = content["cases"]
    yield heading(content)
    yield ""
    yield f"![Speeds, cuBLAS being 1](results/{CHART.name})"
    yield ""
    yield from _summary(rows)
    for group in dict.fromkeys(row["group"] for row in rows):
        yield f"### {group[0].upper()}{group[1:]}"
        yield ""
        yield from _table([row for row in rows if row["group"] == group])
        yield ""


def _summary(rows: Sequence[Row]) -> Iterator[str]:
    plain = [row for row in rows if row["group"] not in OWN_KINDS]
    parts = {"float32": plain}
    tuned = {chosen: [row for row in plain if _chosen(row) == chosen] for chosen in ("tuned", "picked")}
    if all(tuned.values()):
        parts |= {f"float32, {chosen}": part_rows for chosen, part_rows in tuned.items()}
    parts |= {kind: part_rows for kind in OWN_KINDS if (part_rows := [row for row in rows if row["group"] == kind])}
    for what, rivals in (("the fastest way to call cuBLAS", CUBLAS), ("what cuBLAS chooses itself", CHOICE)):
        ratio = partial(cublas_ratio, rivals=rivals)
        yield f"| against {what} | shapes | compared | goals met | cold | worst | below 1 | warm | worst | below 1 |"
        yield "|---|---|---|---|---|---|---|---|---|---|"
        for name, part_rows in parts.items():
            known = [row for row in part_rows if ratio(contenders(row, "cold")) is not None]
            cells = [name, str(len(part_rows)), str(len(known)), goals_met(part_rows, rivals)]
            for regime in ("cold", "warm"):
                cells += mean_and_worst(part_rows, ratio, regime)
                cells.append(str(sum((ratio(contenders(row, regime)) or 1.0) < 1.0 for row in known)))
            yield f"| {' | '.join(cells)} |"
        yield ""


def _table(rows: Sequence[Row]) -> Iterator[str]:
    peers = [peer for peer in PEERS if any(peer in contenders(row, "cold") for row in rows)]
    heads = "".join(f" {peer} ÷ ours, cold (warm) |" for peer in peers)
    yield (
        f"| case | schedule | ours, cold: median (p10–p90) µs | warm µs | TFLOP/s, cold |{heads} "
        "largest error (bound) | goals |"
    )
    yield "|---|---|---|---|---|" + "---|" * (len(peers) + 2)
    for row in rows:
        cold, warm = contenders(row, "cold"), contenders(row, "warm")
        if not cold:
            yield f"| {row['name']} | {_chosen(row)} | failed: {'; '.join(row['messages'])} |" + " |" * (len(peers) + 4)
            continue
        ours = cold["cugen"]
        cells = [
            row["name"],
            _chosen(row),
            f"{us(ours['median_us'])} ({us(ours['p10_us'])}–{us(ours['p90_us'])}{_samples(ours)})",
            us(warm["cugen"]["median_us"]),
            f"{_flop(row['params']) / ours['median_us'] / 1e6:.1f}",
        ]
        cells += [f"{cold[p]['ratio']:.2f} ({warm[p]['ratio']:.2f})" if p in cold else "–" for p in peers]
        cells.append(f"{row['max_abs_error']:.1e} ({row['tolerance']:.1e})" if "tolerance" in row else "–")
        cells.append("; ".join(goal_text(row, goal) for goal in row["goals"]) or "–")
        yield f"| {' | '.join(cells)} |"


def _chosen(row: Row) -> str:
    return "tuned" if row.get("tuned") else "picked"


def _samples(timed: Row) -> str:
    """Number of samples, if fewer than usual."""
    return f"; {timed['samples']} samples" if timed["samples"] < SAMPLES else ""


def _flop(params: dict[str, int]) -> int:
    """Floating-point operations of the problem, without padding of tiles. Batches are of square matrices."""
    n = params["N"]
    return 2 * params.get("B", 1) * params.get("M", n) * n * params.get("K", n)


def _limits(content: Row, limits: Row) -> Iterator[str]:
    """Table of the counters of the cases that miss a goal, in percent."""
    yield f"Nsight Compute {limits['profiler']}; {limits['date']}; `{limits['command']}`"
    yield ""
    yield (
        "*Active* is the time in which a multiprocessor has work, *issue* and *multiply-adds* are shares of that time, "
        "*shared* is the data path of shared memory and L1. Tensor cores, which float64 has, are in none of them."
    )
    yield ""
    yield "| case | missed | µs, profiled | active | issue | multiply-adds | shared | memory | registers | blocks |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    rows = {row["name"]: row for row in content["cases"]}
    for case in limits["cases"]:
        row = rows[case["name"]]
        missed = "; ".join(goal_text(row, goal) for goal in row["goals"] if verdict(row, goal)[1] == "missed")
        for launch in case["launches"]:
            shares = [f"{launch[key]:.0f} %" if key in launch else "–" for key in _SHARES]
            counts = [f"{launch[key]:.0f}" if key in launch else "–" for key in ("registers", "blocks")]
            yield f"| {' | '.join([case['name'], missed, us(launch['time_us']), *shares, *counts])} |"


def _regret(content: Row) -> Iterator[str]:
    yield f"{content['device']}; {content['date']}; cugen {content['cugen']}; `{content['command']}`"
    yield ""
    yield "What the generator picks by its model, and the best that a search found, in one run with cold caches."
    yield ""
    yield "| kernel | picked µs | tuned µs | regret |"
    yield "|---|---|---|---|"
    for row in content["kernels"]:
        order = "; sums in another order" if row["reorders"] else ""
        yield f"| {row['kernel']} | {us(row['untuned_us'])} | {us(row['tuned_us'])}{order} | {row['regret']:.3f} |"
    yield f"| geometric mean of {len(content['kernels'])} | | | {content['mean']:.3f} |"


def main() -> int:
    content, limits, regret = (
        json.loads(path.read_text()) if path.exists() else None for path in (RESULTS, LIMITS, REGRET)
    )
    text = replaced(PAGE.read_text(), "products", "end products", part(content, limits, regret))
    return write({PAGE: text} | ({CHART: picture(content)} if content else {}), __doc__)


if __name__ == "__main__":
    sys.exit(main())
