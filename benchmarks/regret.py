"""By how much the generator's own choices miss the tuned ones: every entry of a lock file, both timed in one run.

    python benchmarks/regret.py specs/*.yaml [--lock cugen.lock] [--tune 60] [--json]

Without `--tune` the entries are those of the lock files beside the specs; with it each spec is tuned first, for as many
seconds, and nothing is written. The regret of a kernel is the untuned time over the tuned one, cold; that of the list
is the geometric mean.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from cugen.run.libcuda import driver
from cugen.schedule.lock import NAME, Entry, read
from cugen.spec.load import load_all
from cugen.spec.model import Spec
from cugen.tune import Options, search
from cugen.tune.comparison import compare


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
    parser.add_argument("specs", nargs="+", type=Path)
    parser.add_argument("--lock", type=Path, help="for all specs, in place of the ones beside them")
    parser.add_argument("--tune", type=float, metavar="SECONDS", help="tune each first")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    driver()  # refuses, with the way out, where there is none
    specs = [spec for file in args.specs for spec in load_all(file) if not any(p.is_dynamic for p in spec.params)]
    entry_of = _tuner(args.tune) if args.tune else _reader(args.lock)
    rows = list(regrets(specs, entry_of))
    if args.json:
        print(
            json.dumps({"kernels": [vars(row) | {"regret": row.regret} for row in rows], "mean": mean(rows)}, indent=2)
        )
        return 0
    for row in rows:
        order = "  (sums in another order)" if row.reorders else ""
        print(f"{row.kernel:<32} {row.untuned_us:10.2f} µs {row.tuned_us:10.2f} µs  {row.regret:5.2f}{order}")
    print(f"geometric mean of {len(rows)}: {mean(rows):.3f}")
    return 0


def regrets(specs: Iterable[Spec], entry_of: Callable[[Spec], Entry | None]) -> Iterable[Row]:
    """A row for each spec with an entry."""
    for spec in specs:
        entry = entry_of(spec)
        if entry is None:
            print(f"{spec.kernel}: no entry", file=sys.stderr)
            continue
        if not entry.schedules:
            yield Row(spec.kernel, entry.device, entry.untuned.cold, entry.untuned.cold, False)
            continue
        untuned, tuned = compare(spec, [(), entry.schedules], dict(entry.params))
        yield Row(spec.kernel, entry.device, untuned.cold, tuned.cold, entry.reorders)


def mean(rows: Iterable[Row]) -> float:
    """The geometric mean of the regrets; 1 of none."""
    logs = [math.log(row.regret) for row in rows]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0


def _tuner(seconds: float) -> Callable[[Spec], Entry | None]:
    return lambda spec: search(spec, Options(budget_s=seconds)).entry


def _reader(lock: Path | None) -> Callable[[Spec], Entry | None]:
    def found(spec: Spec) -> Entry | None:
        path = lock or Path(spec.dependencies[0]).parent / NAME
        entries = read(path).of(spec) if path.exists() else ()
        return entries[0] if entries else None

    return found


if __name__ == "__main__":
    sys.exit(main())
