"""GEMMs of drawn shapes: as planned, beside cuBLAS as PyTorch calls it, and beside other tile configs.

    python -m benchmarks.gemm.drawn_products [--seed 1] [--cases 40] [--variants 0] [--output FILE]
                                        [--type bfloat16] [--layouts nn nt tn] [--sizes 4096x32768x512 ...]

M, N and K are log-uniform from 16 to 8192, half of the shapes in multiples of 8, after four that are always measured;
with `--sizes`, these shapes and no drawn ones. In float32 they are of the family `gemm`, in bfloat16 of `wgmma`; in a
layout `t` stands for a transposed A, stored [K, M], or B. Caches are cold and samples interleaved; the results of all
kernels are compared with the library's. With `--variants N`, N more configs of each shape are timed: the fastest by the
cost model, and the fastest of each block tile and of each way to split K. Rows have what the cost model predicted, so
that it can be fitted to them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from statistics import geometric_mean
from typing import Any

from benchmarks.timing.cases import spec_text
from benchmarks.timing.cold_times import TORCH, cold_times
from benchmarks.timing.figures import about, save
from cugen.bench.session import Session, session
from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.recognition import recognise
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.selection.heuristic import rank
from cugen.families.gemm.selection.heuristic import schedule_of as gemm_schedule_of
from cugen.families.gemm.wgmma import selection as wgmma
from cugen.families.gemm.wgmma.config import WgmmaConfig
from cugen.kernel import Kernel, generate
from cugen.machine.wgmma import INSTRUCTIONS
from cugen.plan.context import make_context
from cugen.runtime.gpu import target_for
from cugen.schedule.planner import requests
from cugen.schedule.runs import group
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.spec.model import Schedule
from cugen.toolchain.cuda import compile_cubin
from cugen.toolchain.errors import CompileError

Sizes = tuple[int, int, int]
TYPES = {"float32": ("gemm", "sm_90"), "bfloat16": ("wgmma", "sm_90a")}  # the family and the target
READS = {"nn": ("m, k", "k, n"), "nt": ("m, k", "n, k"), "tn": ("k, m", "k, n"), "tt": ("k, m", "n, k")}
ALWAYS: tuple[Sizes, ...] = ((640, 640, 640), (2048, 32, 2048), (1, 4097, 4097), (4, 50257, 768))
PLANNED = "planned"
_SMALLEST, _LARGEST = 16, 8192
_SAMPLES, _BUDGET_US = 25, 4e4
_TOP_CONFIGS = 3  # by the cost model, before the best of each tile and split


@dataclass(frozen=True)
class Shape:
    sizes: Sizes
    dtype: str = "float32"
    layout: str = "nn"

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.sizes))} {self.layout}"

    @property
    def text(self) -> str:
        """The spec."""
        a, b = READS[self.layout]
        shapes = {"A": a.upper(), "B": b.upper(), "C": "M, N"}
        arrays = {name: f"[{shape}] | {self.dtype}" for name, shape in shapes.items()}
        params = dict(zip("MNK", self.sizes, strict=True))
        target = f"target: {TYPES[self.dtype][1]}"
        return spec_text("product", params, arrays, f"C[m, n] = sum(A[{a}] * B[{b}], k)", target)


@dataclass(frozen=True)
class Variant:
    """A kernel to time: its schedule, None as planned, and its config if it is a GEMM's."""

    name: str
    shape: Shape
    schedule: Schedule | None = None
    config: TileConfig | None = None
    predicted_us: float | None = None


def drawn(random: Random, count: int) -> Iterator[Sizes]:
    yield from ALWAYS
    for _ in range(count):
        m, n, k = (int(_SMALLEST * (_LARGEST / _SMALLEST) ** random.random()) for _ in range(3))
        if random.random() < 0.5:
            m, n, k = (max(size // 8 * 8, 8) for size in (m, n, k))
        yield m, n, k


def variants_of(shape: Shape, count: int) -> list[Variant]:
    """The plan, and `count` other configs of the type's family."""
    planned = Variant(PLANNED, shape)
    (spec,) = load_text(shape.text)
    context = make_context(spec)
    contraction = recognise(next(iter(requests(context, group(context)))))
    if not isinstance(contraction, Contraction):
        return [planned]
    by_time = sorted(ranked(contraction, shape.dtype), key=lambda pair: pair[0])
    chosen: dict[TileConfig, float] = {}
    for kind, limit in ((_but_for_stages, min(_TOP_CONFIGS, count)), (_split, count), (_tile, count)):
        for seconds, config in by_time:
            if len(chosen) < limit and kind(config) not in set(map(kind, chosen)):
                chosen[config] = seconds
    return [
        planned,
        *(
            Variant(f"{number}: {_text(config)}", shape, schedule_of(contraction, config), config, 1e6 * seconds)
            for number, (config, seconds) in enumerate(chosen.items())
        ),
    ]


def ranked(contraction: Contraction, dtype: str) -> list[tuple[float, TileConfig]]:
    """All configs of a family, with their predicted seconds."""
    if TYPES[dtype][0] == "gemm":
        return rank(contraction)
    instruction = INSTRUCTIONS[dtype, dtype]
    return [(1e-6 * wgmma.predict(contraction, c), c) for c in wgmma.configs(contraction, instruction, is_search=True)]


def schedule_of(contraction: Contraction, config: TileConfig) -> Schedule:
    if isinstance(config, WgmmaConfig):
        return wgmma.schedule_of(contraction, config)
    return replace(gemm_schedule_of(contraction, config), family="gemm")


def _text(config: TileConfig) -> str:
    text = f"{config.block_m}x{config.block_n}"
    counts = {"split": config.split_k, "multicast": getattr(config, "multicast", 1), "stream": config.stream_k + 1}
    return text + "".join(f" {name} {count - (name == 'stream')}" for name, count in counts.items() if count > 1)


def _but_for_stages(config: TileConfig) -> TileConfig:
    return replace(config, stages=1)


def _split(config: TileConfig) -> tuple[bool, bool, int, int]:
    return config.split_k > 1, config.uses_cluster, config.stream_k, getattr(config, "multicast", 1)


def _tile(config: TileConfig) -> tuple[int, int]:
    return config.block_m, config.block_n


def kernel_of(variant: Variant) -> Kernel | None:
    """The kernel of a variant; None if it is refused."""
    (spec,) = load_text(variant.shape.text)
    if variant.schedule is not None:
        spec = replace(spec, schedules=(("", variant.schedule),))
    try:
        return generate(spec, remarks="none")
    except SpecError:
        return None


def compiled(variant: Variant, capability: str) -> None:
    """Fills the cache of machine code."""
    if (kernel := kernel_of(variant)) is not None:
        try:
            compile_cubin(kernel.source, kernel.name, target_for(kernel.manifest, capability))
        except CompileError as error:
            print(f"{variant.shape}: {error}", file=sys.stderr)


def row(opened: Session, variants: list[Variant]) -> dict[str, Any]:
    """Cold medians in microseconds, and the configs with their predictions."""
    kernels = {variant: kernel for variant in variants if (kernel := kernel_of(variant)) is not None}
    by_name = {variant.name: kernel for variant, kernel in kernels.items()}
    measured = cold_times(opened, by_name, samples=_SAMPLES, budget_us=_BUDGET_US)
    times = measured.with_torch
    launches = kernels[variants[0]].plan.kernels
    return {
        "sizes": variants[0].shape.sizes,
        "layout": variants[0].shape.layout,
        "plan": [f"{launch.family}: {launch.reasons[-1] if launch.reasons else ''}" for launch in launches],
        "cold_us": dict(times),
        "ratio": times[TORCH] / times[PLANNED],
        "difference": measured.difference,
        "variants": [
            {"us": times[variant.name], "predicted_us": variant.predicted_us, "config": fields_of(variant.config)}
            for variant in variants
            if variant.config is not None and variant.name in times
        ],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--variants", type=int, default=0, help="other configs of each shape")
    parser.add_argument("--type", choices=tuple(TYPES), default="float32")
    parser.add_argument("--layouts", nargs="+", choices=tuple(READS), default=["nn"])
    parser.add_argument("--sizes", nargs="+", metavar="MxNxK", default=[])
    parser.add_argument("--output", type=Path, metavar="FILE", help="JSON file of the rows")
    args = parser.parse_args()
    given = [tuple(map(int, text.split("x"))) for text in args.sizes]
    rows: list[dict[str, Any]] = []
    with session() as opened:
        with ProcessPoolExecutor() as pool:
            sizes = given or list(drawn(Random(args.seed), args.cases))
            shapes = [Shape((m, n, k), args.type, layout) for m, n, k in sizes for layout in args.layouts]
            cases = list(pool.map(variants_of, shapes, [args.variants] * len(shapes)))
            list(pool.map(compiled, *zip(*((v, opened.capability) for case in cases for v in case), strict=True)))
        for case in cases:
            rows.append(row(opened, case))
            last = rows[-1]
            times = {name: round(us, 2) for name, us in last["cold_us"].items()}
            print(f"{case[0].shape!s:>19} {last['ratio']:6.3f}  {times}", flush=True)
            if args.output:
                save(args.output, content(opened.device, rows))
    print(f"{len(rows)} shapes: {mean(rows):.3f} of cuBLAS' speed in geometric mean")
    return 0


def fields_of(config: TileConfig) -> dict[str, Any]:
    """But for the instruction, which the type decides."""
    return {name: value for name, value in asdict(config).items() if name != "instruction"}


def content(device: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Content of the output file."""
    return about(device) | {"mean": mean(rows), "worst": min(row["ratio"] for row in rows), "cases": rows}


def mean(rows: list[dict[str, Any]]) -> float:
    """Geometric mean of the times of cuBLAS over those of the plans."""
    return geometric_mean(row["ratio"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
