"""Float32 transposed convolutions: as planned, with register windows, with stored products, and by PyTorch.

    python benchmarks/transposed.py [--seed 1] [--cases 24] [--output docs/results/transposed_h100.json]

Register windows are `family: stencil`, stored products a GEMM over the channels and a sum of its results. After the
listed shapes, of image generators and decoders, others are drawn from the seed. The regret of a case is the time of the
plan without requests over the fastest of the three, its ratio the time of PyTorch (cuDNN's fastest algorithm, without
tf32) over that of the plan, in one run, with cold caches. All results are compared with PyTorch's.
"""

from __future__ import annotations

import argparse
import datetime
import math
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from cases import spec_text
from cold_times import TORCH, cold_times
from figures import command, save

import cugen
from cugen.bench.peers import Called
from cugen.bench.session import Session, session
from cugen.families.gemm.tiled import family as tiled
from cugen.kernel import Kernel, generate
from cugen.runtime.gpu import target_for
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_cubin

PLANNED, WINDOWS, PRODUCTS = "planned", "windows", "products"
VARIANTS = (PLANNED, WINDOWS, PRODUCTS)
WAYS = ((2, 2, 0), (3, 2, 1), (3, 3, 0), (4, 2, 1), (5, 2, 2))  # taps, stride and padding
MIN_TERMS, MAX_TERMS = 1 << 23, 1 << 33
MAX_PRODUCTS = 1 << 27  # that are stored


@dataclass(frozen=True)
class Case:
    """x [batch, channels, height, width], y [batch, features, …]."""

    batch: int
    channels: int
    features: int
    height: int
    width: int
    taps: int
    stride: int
    pad: int

    @property
    def products(self) -> int:
        return self.batch * self.features * self.height * self.width * self.taps**2

    @property
    def text(self) -> str:
        b, c, f, h, w, r, s, p = astuple(self)
        outputs = ", ".join(str((size - 1) * s - 2 * p + r) for size in (h, w))
        arrays = {
            "x": f"[{b}, {c}, {h}, {w}] | float32 | boundary: zero",
            "w": f"[{c}, {f}, {r}, {r}] | float32",
            "y": f"[{b}, {f}, {outputs}] | float32",
        }
        read = f"x[n, c, (i + {p} - r) / {s}, (j + {p} - s) / {s}]"
        return spec_text("transposed", {}, arrays, f"y[n, k, i, j] = sum({read} * w[c, k, r, s], c, r, s)")

    @property
    def peer(self) -> Called:
        call = f"torch.nn.functional.conv_transpose2d(x, w, stride={self.stride}, padding={self.pad})"
        return Called(TORCH, TORCH, f"def peer(x, w):\n    return ({call},)\n")


LISTED = (
    Case(1, 64, 64, 64, 64, 4, 2, 1),
    Case(1, 128, 64, 32, 32, 4, 2, 1),
    Case(1, 256, 128, 16, 16, 4, 2, 1),
    Case(1, 512, 256, 8, 8, 4, 2, 1),
    Case(1, 1024, 512, 4, 4, 4, 2, 1),
    Case(8, 64, 32, 64, 64, 4, 2, 1),
    Case(8, 32, 3, 128, 128, 4, 2, 1),
    Case(1, 64, 64, 128, 128, 2, 2, 0),
    Case(4, 128, 64, 56, 56, 2, 2, 0),
    Case(1, 16, 16, 256, 256, 3, 2, 1),
    Case(1, 64, 32, 57, 61, 3, 3, 0),
    Case(2, 96, 48, 33, 47, 5, 2, 2),
    Case(16, 256, 128, 16, 16, 4, 2, 1),
    Case(1, 32, 32, 200, 200, 4, 2, 1),
    Case(4, 256, 256, 28, 28, 3, 2, 1),
    Case(16, 512, 256, 8, 8, 4, 2, 1),
)


def drawn(random: Random) -> Case:
    """A case whose work and products are within limits; most have channels near those from which products pay off."""
    while True:
        channels = random.choice((16, 32, 40, 48, 56, 64, 80, 96, 128, 256, 512))
        features = random.choice((3, 16, 32, 48, 64, 128, 256))
        height, width = (int(4 * 64 ** random.random()) for _ in range(2))
        batch = random.choice((1, 1, 2, 4, 8, 16, 32))
        case = Case(batch, channels, features, height, width, *random.choice(WAYS))
        if case.products <= MAX_PRODUCTS and MIN_TERMS <= case.products * channels <= MAX_TERMS:
            return case


def planned(case: Case, variant: str) -> Kernel | None:
    """The kernel of a variant; None if it is refused."""
    (spec,) = load_text(f"{case.text}schedule: {{family: stencil}}\n" if variant == WINDOWS else case.text)
    limit = 0 if variant == PRODUCTS else tiled.MIN_STORED_CHANNELS
    try:
        with patch.object(tiled, "MIN_STORED_CHANNELS", limit):
            kernel = generate(spec, remarks="none")
    except SpecError:
        return None
    return None if variant == PRODUCTS and len(kernel.plan.kernels) == 1 else kernel


def compiled(case: Case, variant: str, capability: str) -> None:
    """Fills the cache of machine code."""
    if (kernel := planned(case, variant)) is not None:
        compile_cubin(kernel.source, kernel.name, target_for(kernel.manifest, capability))


def row(opened: Session, case: Case) -> dict[str, Any]:
    """Cold medians of the variants in microseconds, the plan's families, the regret and the ratio."""
    kernels = {variant: kernel for variant in VARIANTS if (kernel := planned(case, variant)) is not None}
    times, _ = cold_times(opened, kernels, case.peer, samples=60, budget_us=1e5)
    return {
        "case": astuple(case),
        "families": "+".join(launch.family for launch in kernels[PLANNED].plan.kernels),
        "cold_us": times,
        "regret": times[PLANNED] / min(times[variant] for variant in kernels),
        "ratio": times[TORCH] / times[PLANNED],
    }


def mean(rows: list[dict[str, Any]], key: str) -> float:
    """Geometric mean."""
    return math.exp(sum(math.log(entry[key]) for entry in rows) / len(rows))


def rows_of(cases: list[Case]) -> Iterator[dict[str, Any]]:
    with session() as opened:
        with ProcessPoolExecutor() as pool:
            jobs = [(case, variant, opened.capability) for case in cases for variant in VARIANTS]
            list(pool.map(compiled, *zip(*jobs, strict=True)))
        for case in cases:
            yield row(opened, case)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=24, help="drawn after the listed ones")
    parser.add_argument("--output", type=Path, metavar="FILE", help="JSON file of the rows")
    args = parser.parse_args()
    random = Random(args.seed)
    rows: list[dict[str, Any]] = []
    for measured in rows_of([*LISTED, *(drawn(random) for _ in range(args.cases))]):
        rows.append(measured)
        times = "  ".join(f"{name} {us:.1f}" for name, us in measured["cold_us"].items())
        print(f"{measured['regret']:5.2f} {measured['ratio']:6.2f}  {measured['case']} {times}", flush=True)
    regrets, ratios = ([entry[key] for entry in rows] for key in ("regret", "ratio"))
    print(f"{len(rows)} cases: regret {mean(rows, 'regret'):.3f} in geometric mean, {max(regrets):.3f} at worst")
    print(f"PyTorch over the plan: {mean(rows, 'ratio'):.3f} in geometric mean, {min(ratios):.3f} at worst")
    if args.output:
        with session() as opened:
            device = opened.device
        head = {"device": device, "date": datetime.date.today().isoformat(), "cugen": cugen.__version__}
        figures = {"mean_regret": mean(rows, "regret"), "worst_regret": max(regrets)}
        figures |= {"mean_ratio": mean(rows, "ratio"), "worst_ratio": min(ratios)}
        save(args.output, head | {"command": command()} | figures | {"cases": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
