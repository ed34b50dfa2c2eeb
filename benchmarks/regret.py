"""By how much the generator's own choices miss the tuned ones: every entry of a lock file, both timed in one run.

    python benchmarks/regret.py specs/*.yaml [--lock cugen.lock] [--tune 60] [--output FILE]
    python benchmarks/regret.py --products --lock benchmarks/cugen.lock --output docs/results/regret_h200.json

Without `--tune` the entries are those of the lock files beside the specs; with it each spec is tuned first, for as many
seconds, and nothing is written. `--products` are the tuned ones of `products.py`. The regret of a kernel is the untuned
time over the tuned one, cold; that of the list is the geometric mean. The file of `--output`, which
`products_page.py` takes, grows row by row.
"""

from __future__ import annotations

import argparse
import datetime
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from figures import command, save
from products_cases import tuned

import cugen
from cugen.runtime.libcuda import driver
from cugen.schedule.lock import NAME, Entry, read
from cugen.spec.load import load_all, load_text
from cugen.spec.model import Spec
from cugen.tune import Options, search
from cugen.tune.timing.comparison import CannotCompare, compare
from cugen.tune.timing.gpus import gpus


@dataclass(frozen=True)
class Row:
    """One kernel; microseconds with cold caches."""

    kernel: str
    device: str
    untuned_us: float
    tuned_us: float
    reorders: bool

    @property
    def regret(self) -> float:
        """1 where nothing is missed."""
        return self.untuned_us / self.tuned_us


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="*", type=Path)
    parser.add_argument(
        "--products", action="store_true", help="the tuned products of the list; needs --lock or --tune"
    )
    parser.add_argument("--lock", type=Path, help="for all specs, in place of the ones beside them")
    parser.add_argument("--tune", type=float, metavar="SECONDS", help="tune each first")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the rows as JSON")
    args = parser.parse_args()
    if not (args.specs or args.products):
        parser.error("neither specs nor --products")
    if args.products and not (args.lock or args.tune):
        parser.error("--products has no lock file beside it: --lock or --tune")
    driver()  # refuses, with the way out, where there is none
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
    """What the file has."""
    return {
        "device": gpus()[0].name,
        "date": datetime.date.today().isoformat(),
        "cugen": cugen.__version__,
        "command": command(),
        "kernels": [asdict(row) | {"regret": row.regret} for row in rows],
        "mean": mean(rows),
    }


def regrets(specs: Iterable[Spec], entry_of: Callable[[Spec], Entry | None]) -> Iterable[Row]:
    """A row for each spec with an entry that can be timed; of the others it is said why there is none."""
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


def mean(rows: Iterable[Row]) -> float:
    """The geometric mean of the regrets; 1 of none."""
    logs = [math.log(row.regret) for row in rows]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0


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
