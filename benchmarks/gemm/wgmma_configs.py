"""Configs of GEMMs by wgmma beside cuBLAS: of listed and drawn shapes in bfloat16, the plan and others that a search
has.

    python -m benchmarks.gemm.wgmma_configs docs/results/wgmma_configs_h200.json [--seed 1] [--cases 24]

Drawn shapes have rows that TMA reads: others are copied before. Of each shape those are timed whose predicted times are
least: of all, of each kind of cluster, of five tiles, without a producer, the same with swapped operands, and the
plan's tile with stmatrix. Samples are interleaved in turns with PyTorch's and cuBLASLt's, after 256 MB were read
(`tensor_products.py`); times are medians in microseconds. The cost model's tests compare its predictions with such
times (`tests/data/wgmma_swapped_h200.csv`).
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.gemm.tensor_products import FLUSHED, Built, Inputs, built, contenders, own_call, timed, torch_type
from benchmarks.gemm.tensor_products_cases import Case
from benchmarks.timing.figures import command, save
from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.recognition import recognise
from cugen.families.gemm.wgmma.config import WgmmaConfig
from cugen.families.gemm.wgmma.cost_model import predict
from cugen.families.gemm.wgmma.selection import configs, schedule_of
from cugen.machine.wgmma import INSTRUCTIONS
from cugen.plan.context import make_context
from cugen.schedule.planner import requests
from cugen.schedule.runs import group
from cugen.spec.load import load_text

TARGET, TYPE, LAYOUTS = "sm_90a", "bfloat16", ("nn", "nt", "tn")
PLAN, STMATRIX = "plan", "stmatrix"
# Few or many rows, few columns, a long or a short K, one wave of tiles or less.
LISTED = (
    ("nn", (6824, 152, 1824)),
    ("tn", (6824, 152, 1824)),
    ("nn", (4096, 576, 7168)),
    ("nt", (4096, 576, 7168)),
    ("nn", (128, 7168, 16384)),
    ("nt", (4096, 32768, 512)),
    ("nn", (1536, 1536, 1536)),
    ("nt", (2120, 1312, 2808)),
    ("nt", (176, 5392, 3504)),
    ("tn", (1608, 1648, 3208)),
    ("nt", (2216, 160, 2472)),
    ("nt", (328, 1416, 1392)),
    ("nn", (64, 4096, 4096)),
    ("tn", (40, 7008, 16)),
    ("tn", (1024, 1024, 1024)),
    ("nn", (2560, 2560, 2560)),
    ("nt", (4096, 4096, 4096)),
)
_TILES, _OF_ALL, _OF_EACH = 5, 3, 2
_SMALLEST, _LARGEST = 24, 8192  # drawn sizes
_MIN_TERMS, _MAX_TERMS = 1 << 24, 1 << 36


def cases(random: Random, drawn: int) -> Iterator[Case]:
    for layout, sizes in LISTED:
        yield Case("listed", TYPE, layout, sizes)
    for _ in range(drawn):
        yield Case("drawn", TYPE, random.choice(LAYOUTS), drawn_sizes(random))


def drawn_sizes(random: Random) -> tuple[int, int, int]:
    """Multiples of 8, log-uniform along each axis."""
    while True:
        m, n, k = (int(_SMALLEST * (_LARGEST / _SMALLEST) ** random.random()) // 8 * 8 for _ in range(3))
        if _MIN_TERMS < m * n * k < _MAX_TERMS:
            return m, n, k


def schedules(case: Case) -> dict[str, str]:
    """Lines of specs that request configs, by what they are; none for the plan."""
    lines = {PLAN: ""}
    (spec,) = load_text(case.spec(TARGET))
    context = make_context(spec)
    contraction = recognise(next(iter(requests(context, group(context)))), takes_windows=True)
    if not isinstance(contraction, Contraction):
        return lines
    searched = sorted(
        configs(contraction, INSTRUCTIONS[TYPE, TYPE], is_search=True), key=lambda c: predict(contraction, c)
    )
    plain, swapped = ([c for c in searched if not c.stream_k and c.swaps_ab == swaps] for swaps in (False, True))
    for config in (*chosen(plain), *chosen(swapped)):
        lines[f"{predict(contraction, config):.1f} {described(config)}"] = line_of(contraction, config)
    first = next(config for config in plain if config.has_producer)
    if first.split_k == 1:
        lines[STMATRIX] = line_of(contraction, first, ", epilogue: stmatrix")
    return lines


def chosen(searched: list[WgmmaConfig]) -> Iterator[WgmmaConfig]:
    """Those with the least predicted times, of which some appear twice."""
    with_producer = [config for config in searched if config.has_producer]
    yield from with_producer[:_OF_ALL]
    clusters = sorted({(c.split_k, c.multicast, c.multicast_n) for c in with_producer})
    for cluster in clusters:
        of_kind = (c for c in with_producer if (c.split_k, c.multicast, c.multicast_n) == cluster)
        yield from islice(of_kind, _OF_EACH)
    tiles = {(int(c.block_m), int(c.block_n)): c for c in reversed(with_producer)}
    yield from islice((c for c in with_producer if tiles[int(c.block_m), int(c.block_n)] is c), _TILES)
    yield from islice((c for c in searched if not c.has_producer), 1)


def described(config: WgmmaConfig) -> str:
    text = f"{int(config.block_m)}x{int(config.block_n)} st{int(config.stages)} sk{config.split_k}"
    text = f"swapped {text}" if config.swaps_ab else text
    return f"{text} mc{config.multicast} mn{config.multicast_n}{'' if config.has_producer else ' none'}"


def line_of(contraction: Contraction, config: WgmmaConfig, more: str = "") -> str:
    schedule = schedule_of(contraction, config)
    block = ", ".join(f"{index}: {size}" for index, size in schedule.block)
    tunables = ", ".join(f"{name}: {str(value).lower()}" for name, value in schedule.tunables)
    return f"schedule: {{family: wgmma, block: {{{block}}}, {tunables}{more}}}\n"


def prepared(case: Case) -> dict[str, Built]:
    """The kernels of a case, whose machine code is in the cache."""
    kernels = {name: built(case, TARGET, line) for name, line in schedules(case).items()}
    return {name: kernel for name, kernel in kernels.items() if not kernel.failure}


def row(torch: Any, case: Case, kernels: dict[str, Built], spare: Any) -> dict[str, Any]:
    m, n, _ = case.sizes
    inputs = Inputs(torch, case)
    result = torch.empty((m, n), dtype=torch_type(torch, TYPE), device="cuda")
    calls = contenders(torch, case, kernels[PLAN], inputs, result)
    calls |= {name: own_call(torch, case, kernel, inputs, result) for name, kernel in kernels.items() if name != PLAN}
    times = timed(torch, calls, spare)["read"]
    times = {(PLAN if name == "cugen" else name): us for name, us in times.items()}
    about = {"group": case.group, "layout": case.layout, "sizes": case.sizes, "plan": kernels[PLAN].config}
    return {**about, "read": times}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=1, help="of the drawn shapes")
    parser.add_argument("--cases", type=int, default=24, help="drawn after the listed ones")
    options = parser.parse_args()
    import torch

    timed_cases = list(cases(Random(options.seed), options.cases))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        kernels = list(pool.map(prepared, timed_cases))
    spare, rows = torch.empty(FLUSHED, device="cuda"), []
    for case, of_case in zip(timed_cases, kernels, strict=True):
        rows.append(row(torch, case, of_case, spare))
        kernel_us = {name: us for name, us in rows[-1]["read"].items() if name in of_case}
        best = min(kernel_us, key=kernel_us.__getitem__)
        peer = min(us for name, us in rows[-1]["read"].items() if name not in kernel_us)
        print(
            f"{case}: plan {kernel_us[PLAN]:.1f}, fastest {kernel_us[best]:.1f} ({best}), peer {peer:.1f} us",
            flush=True,
        )
    about = {"device": torch.cuda.get_device_name(), "date": datetime.date.today().isoformat(), "seed": options.seed}
    save(options.output, {"command": command(), **about, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
