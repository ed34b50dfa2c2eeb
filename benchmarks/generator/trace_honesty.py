"""Traces every gallery spec on the CPU device, at sizes just above and below its tiles, and compares each access of
each thread with the prediction of the plan.

    python -m benchmarks.generator.trace_honesty docs/results/trace.json

The file has, for each kernel and size, the number of compared accesses, of mismatches, and of accesses that depend on
data in a way that the plan doesn't express (`unknown`).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from cugen.emit.resources import data_folder
from cugen.kernel import generate
from cugen.runtime.honesty import check_honesty, small_params
from cugen.spec.load import load, load_all


def trace_kernel(path: Path, name: str, beyond: int) -> dict[str, Any]:
    """Row of one kernel at one size."""
    full = load(path, kernel=name)
    params = small_params(full, generate(full).plan, beyond)
    dynamic = {param.name: params[param.name] for param in full.params if param.is_dynamic}
    spec = load(path, params, kernel=name)
    kernel = generate(spec)
    lines = kernel.access_lines()
    comparison = check_honesty(spec, kernel.plan, kernel.source, kernel.manifest, lines, dynamic, seed=1)
    print(f"{name} {params}: {comparison.summary}", *comparison.mismatches[:5], sep="\n    ", flush=True)
    return {
        "kernel": name,
        "params": params,
        "accesses_compared": comparison.compared,
        "mismatches": len(comparison.mismatches),
        "unknown": comparison.unknown,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the JSON file to write")
    output: Path = parser.parse_args().output
    rows = []
    for path in sorted(data_folder("specs").glob("*.yaml")):
        for spec in load_all(path):
            rows += [trace_kernel(path, spec.kernel, beyond) for beyond in (1, -1)]
    totals = {key: sum(row[key] for row in rows) for key in ("accesses_compared", "mismatches", "unknown")}
    lines = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    output.write_text(f'{{\n  "totals": {json.dumps(totals)},\n  "kernels": [\n{lines}\n  ]\n}}\n')
    return 1 if totals["mismatches"] else 0


if __name__ == "__main__":
    sys.exit(main())
