"""Regret of the generator's choices: untuned over tuned time of each entry of a lock file, timed in one run.

    python -m benchmarks.machine.regret specs/*.yaml [--lock cugen.lock] [--tune 60] [--output FILE]
    python -m benchmarks.machine.regret --products --lock benchmarks/gemm/cugen.lock --output regret.json

Entries come from the lock files in the specs' folders; `--tune` tunes each spec first, for that many seconds, and
writes no lock file. `--products` selects the tuned cases of `products.py`. Regrets are for cold caches; that of the
list is the geometric mean. The file of `--output`, the input of `products_page.py`, is updated after each row.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.gemm.products_cases import tuned
from benchmarks.timing.figures import about, save
from cugen.runtime.cuda.libcuda import driver
from cugen.schedule.lock import NAME, Entry, read
from cugen.spec.load import load_all, load_text
from cugen.spec.model import Spec
from cugen.tune import Options, search
from cugen.tune.timing.comparison import CannotCompare, compare
from cugen.tune.timing.gpus import gpus


@dataclass(frozen=True)
class Row:
    """Times of one kernel in microseconds, with cold caches."""

    kernel: str
    device: str
    untuned_us: float
    tuned_us: float
    reorders: bool

    @property
    def regret(self) -> float:
        """Untuned time over tuned time."""
        return self.untuned_us / self.tuned_us


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="*", type=Path)
    parser.add_argument(
        "--products", action="store_true", help="the tuned GEMMs of products.py; needs --lock or --tune"
    )
    parser.add_argument("--lock", type=Path, help="lock file of all specs (default: cugen.lock in their folders)")
    parser.add_argument("--tune", type=float, metavar="SECONDS", help="tune each spec first")
    parser.add_argument("--output", type=Path, metavar="FILE", help="JSON file of the rows")
    args = parser.parse_args()
    if not (args.specs or args.products):
        parser.error("expected specs or --products")
    if args.products and not (args.lock or args.tune):
        parser.error("--products needs --lock or --tune")
    driver()  # raises RunError with a cure if there is no GPU
    specs = [spec for file in args.specs for spec in load_all(file) if not any(p.is_dynamic for p in spec.params)]
    specs += [spec for case in tuned() if args.products for spec in load_text(case.spec)]
    entry_of = _tuner(args.tune) if args.tune else _reader(args.lock)
    rows: list[Row] = []
    for row in regrets(specs, entry_of):
        rows.append(row)
        order = "  (sums in another order)" if row.reorders else ""
        print(
            f"{row.kernel:<32} {row.untuned_us:10.2f} µs {row.tuned_us:10.2f} µs  {row.regret:5.2f}{order}", flush=True
        )
        if args.output:
            save(args.output, content(rows))
    print(f"geometric mean of {len(rows)}: {mean(rows):.3f}")
    return 0


def content(rows: Sequence[Row]) -> dict[str, Any]:
    """Content of the output file."""
    kernels = [asdict(row) | {"regret": row.regret} for row in rows]
    return about(gpus()[0].name) | {"kernels": kernels, "mean": mean(rows)}


def regrets(specs: Iterable[Spec], entry_of: Callable[[Spec], Entry | None]) -> Iterable[Row]:
    """Rows of the specs whose entry can be timed; prints a reason for the others."""
    for spec in specs:
        entry = entry_of(spec)
        if entry is None:
            print(f"{spec.kernel}: no entry", file=sys.stderr)
            continue
        if not entry.schedules:
            yield Row(spec.kernel, entry.device, entry.untuned.cold, entry.untuned.cold, False)
            continue
        try:
            untuned, best = compare(spec, [(), entry.schedules], dict(entry.params))
        except CannotCompare as reason:
            print(f"{spec.kernel}: {reason}", file=sys.stderr)
            continue
        yield Row(spec.kernel, entry.device, untuned.cold, best.cold, entry.reorders)


def mean(rows: Sequence[Row]) -> float:
    """Geometric mean of the regrets; 1 if there are none."""
    return geometric_mean(row.regret for row in rows) if rows else 1.0


def _tuner(seconds: float) -> Callable[[Spec], Entry | None]:
    return lambda spec: search(spec, Options(budget_s=seconds)).entry


def _reader(lock: Path | None) -> Callable[[Spec], Entry | None]:
    def entry_of(spec: Spec) -> Entry | None:
        path = lock or Path(spec.dependencies[0]).parent / NAME
        entries = read(path).of(spec) if path.exists() else ()
        return entries[0] if entries else None

    return entry_of


if __name__ == "__main__":
    sys.exit(main())
