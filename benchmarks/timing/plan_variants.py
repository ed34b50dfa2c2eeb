"""Plans of cases beside variants of them and PyTorch: what benchmarks of listed and drawn cases have in common.

The regret of a case is the time of the plan over that of the fastest variant, its ratio the time of PyTorch over that
of the plan, in one run, with cold caches. All results are compared with PyTorch's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import geometric_mean
from typing import Any, Generic, Protocol, TypeVar

from benchmarks.timing.cold_times import TORCH, cold_times
from benchmarks.timing.figures import about, save
from cugen.bench.peers import Called
from cugen.bench.session import Session, session
from cugen.kernel import Kernel
from cugen.runtime.gpu import target_for
from cugen.toolchain.cuda import compile_cubin


class Case(Protocol):
    """A dataclass of the sizes of a case."""

    @property
    def text(self) -> str:
        """The spec."""

    @property
    def peer(self) -> Called:
        """The same by PyTorch."""


AnyCase = TypeVar("AnyCase", bound=Case)


@dataclass(frozen=True)
class Comparison(Generic[AnyCase]):
    """`planned` gives the kernel of a case's variant on a compute capability, or None where it is refused; the first
    of the `variants` is the plan without requests. `drawn` are further cases after the listed ones."""

    listed: tuple[AnyCase, ...]
    drawn: Callable[[Random], AnyCase]
    variants: tuple[str, ...]
    planned: Callable[[AnyCase, str, str], Kernel | None]

    def compiled(self, case: AnyCase, variant: str, capability: str) -> None:
        """Fills the cache of machine code."""
        if (kernel := self.planned(case, variant, capability)) is not None:
            compile_cubin(kernel.source, kernel.name, target_for(kernel.manifest, capability))

    def row(self, opened: Session, case: AnyCase) -> dict[str, Any]:
        """Cold medians of the variants in microseconds, the plan's families, the regret and the ratio."""
        planned = {variant: self.planned(case, variant, opened.capability) for variant in self.variants}
        kernels = {variant: kernel for variant, kernel in planned.items() if kernel is not None}
        times = cold_times(opened, kernels, case.peer, samples=60, budget_us=1e5).with_torch
        plan = self.variants[0]
        return {
            "case": list(vars(case).values()),
            "families": "+".join(launch.family for launch in kernels[plan].plan.kernels),
            "cold_us": dict(times),
            "regret": times[plan] / min(times[variant] for variant in kernels),
            "ratio": times[TORCH] / times[plan],
        }

    def rows(self, opened: Session, cases: list[AnyCase]) -> Iterator[dict[str, Any]]:
        with ProcessPoolExecutor() as pool:
            jobs = [(case, variant, opened.capability) for case in cases for variant in self.variants]
            list(pool.map(self.compiled, *zip(*jobs, strict=True)))
        for case in cases:
            yield self.row(opened, case)

    def main(self, description: str | None) -> int:
        """The command: measures all cases, prints them, and writes them to a file."""
        raw, measures = argparse.RawDescriptionHelpFormatter, (__doc__ or "").partition("\n\n")[2]
        parser = argparse.ArgumentParser(description=description, epilog=measures, formatter_class=raw)
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--cases", type=int, default=24, help="drawn after the listed ones")
        parser.add_argument("--output", type=Path, metavar="FILE", help="JSON file of the rows")
        args = parser.parse_args()
        random = Random(args.seed)
        rows: list[dict[str, Any]] = []
        with session() as opened:
            for row in self.rows(opened, [*self.listed, *(self.drawn(random) for _ in range(args.cases))]):
                rows.append(row)
                times = "  ".join(f"{name} {us:.1f}" for name, us in row["cold_us"].items())
                print(
                    f"{row['regret']:5.2f} {row['ratio']:6.2f}  {row['families']:12} {row['case']} {times}", flush=True
                )
            device = opened.device
        figures = {"mean_regret": mean(rows, "regret"), "worst_regret": max(row["regret"] for row in rows)}
        figures |= {"mean_ratio": mean(rows, "ratio"), "worst_ratio": min(row["ratio"] for row in rows)}
        for name in ("regret", "ratio"):
            print(f"{name}: {figures[f'mean_{name}']:.3f} in geometric mean, {figures[f'worst_{name}']:.3f} at worst")
        if args.output:
            save(args.output, about(device) | figures | {"cases": rows})
        return 0


def mean(rows: list[dict[str, Any]], key: str) -> float:
    """Geometric mean."""
    return geometric_mean(row[key] for row in rows)
