"""Draws specs, plans and analyses each, and compiles or runs them if asked; prints those with a fault.

python -m tests.fuzz --seed 0 --count 10000
python -m tests.fuzz --seed 0 --count 500 --compile
python -m tests.fuzz --seed 0 --count 300 --of problems    (of many fields, in place of single operators)
python -m tests.fuzz --seed 0 --count 300 --of slices      (statements that share out the elements of an output)
python -m tests.fuzz --seed 0 --count 500 --run cpu        (each output compared with the reference)
compute-sanitizer --target-processes all python -m tests.fuzz --count 500 --run gpu   (a sample of each output)
python -m tests.fuzz --seed 0 --count 600 --write DIR      (specs of moderate size, for a profiler)
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from cugen.abi.codes import GATHER_OUTSIDE
from cugen.abi.errors import RunError
from cugen.kernel import Kernel, generate
from cugen.reference.cost import cost
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.inputs import known_params, shape_of
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

from . import operators, problems, slices
from .checks import compile_faults, plan_faults
from .gpu import gpu_faults

DRAWERS = {"operators": operators, "problems": problems, "slices": slices}
MAX_PROFILED_ELEMENTS = 1 << 22  # of an array
MAX_PROFILED_OPERATIONS = 3e9


def faults(seed: int, *, of: str, compile: bool, run: str | None) -> list[str]:
    """Of the spec of a seed, drawn by one of DRAWERS."""
    text, sizes = DRAWERS[of].draw(seed), DRAWERS[of].sizes(seed)
    found = list(plan_faults(text, sizes))
    if found or not (compile or run):
        return found
    kernel = generate(load_text(text)[0], remarks="none")
    if compile:
        found += compile_faults(kernel)
    if run:
        try:
            found += (gpu_faults if run == "gpu" else _cpu_faults)(kernel, sizes)
        except Exception as error:
            if isinstance(error, RunError) and error.code == GATHER_OUTSIDE and 0 in sizes.values():
                return found  # an empty array has no element to gather
            found.append(f"{type(error).__name__}: {error}")
    return found


def _cpu_faults(kernel: Kernel, dynamic: dict[str, int]) -> Iterator[str]:
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(), params=dynamic)
    if not run.verification.passed:
        yield from run.verification.messages


def write(folder: Path, seeds: range, of: str) -> None:
    """Writes the specs of moderate size without dynamic params, for sm_90: a profiler runs each kernel many times."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        name = f"drawn_{seed}"
        text = re.sub("target: .*", "target: sm_90", DRAWERS[of].draw(seed).replace("kernel: drawn", f"kernel: {name}"))
        (spec,) = load_text(text)
        if any(param.is_dynamic for param in spec.params) or cost(spec, {}) > MAX_PROFILED_OPERATIONS:
            continue
        params = known_params(spec, {})
        if all(math.prod(shape_of(array, params)) <= MAX_PROFILED_ELEMENTS for array in spec.arrays):
            (folder / f"{name}.yaml").write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first spec; the others follow")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--of", choices=DRAWERS, default="operators", help="what each spec computes")
    parser.add_argument("--compile", action="store_true", help="compile each kernel for its target")
    parser.add_argument("--run", choices=("cpu", "gpu"), help="run each kernel and compare with the reference")
    parser.add_argument("--write", type=Path, metavar="DIR", help="write the specs for benchmarks/machine/counters.py")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.count)
    if options.write:
        write(options.write, seeds, options.of)
        return 0
    check = partial(faults, of=options.of, compile=options.compile, run=options.run)
    failed = 0
    with ProcessPoolExecutor(options.workers) as pool:
        for seed, found in zip(seeds, pool.map(check, seeds, chunksize=4), strict=True):
            if found:
                failed += 1
                print(f"seed {seed}\n{DRAWERS[options.of].draw(seed)}", *found, sep="\n  ", flush=True)
    print(f"{options.count} specs, {failed} with a fault")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
