"""All-pairs kernels (n-body, pairwise distances, k-means, kernel density), timed against a bound of their SASS.

    python -m benchmarks.operators.all_pairs [--seed 1] [--cases 3] [--kinds n-body distances kmeans] [--output FILE]

Distances are Euclidean, Chebyshev (the greatest difference) and the shortest of paths with one stop (a min-plus
product), of the same points.

The bound is the greater of two. The issue bound is the time in which the multiprocessors issue the FP32 and
special-function instructions that the inner loop has per pair, at the clock that was measured while the kernel ran: one
warp instruction per scheduler and clock, and 16 lanes of special functions per multiprocessor and clock. What each
result takes outside of the loop, as the square root of a distance, is not in it. The memory bound is the time of all
inputs and outputs once at the published bandwidth.

Extents are drawn from the seed. With `--sass` nothing is run: the instructions of the inner loops are printed. With
another checkout in PYTHONPATH its kernels are measured; kernels are compiled in parallel first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from benchmarks.timing.cases import spec_text
from benchmarks.timing.figures import about, save
from cugen.bench.buffers import Buffers
from cugen.bench.measure import own_contender
from cugen.bench.protocol import Contender, Plan, measure
from cugen.bench.session import Session, session
from cugen.compiled.sass import parse
from cugen.kernel import Kernel, generate
from cugen.machine import default_device
from cugen.runtime.gpu import target_for
from cugen.runtime.inputs import known_params
from cugen.spec.load import load_text
from cugen.toolchain.binary.disassembler import disassemble
from cugen.toolchain.cuda import compile_cubin

FP32 = {"FADD", "FMUL", "FFMA", "FSETP", "FSEL", "FMNMX", "FSET", "FCHK"}
SPECIAL = {"MUFU"}
KINDS = ("n-body", "distances", "chebyshev", "min-plus", "kmeans", "density")
DISTANCES = {
    "distances": "sqrt(sum((x[i, k] - y[j, k])**2, k))",
    "chebyshev": "max(abs(x[i, k] - y[j, k]), k)",
    "min-plus": "min(x[i, k] + y[j, k], k)",
}
LANES, SCHEDULERS, SPECIAL_LANES = 32, 4, 16  # of a warp; of a multiprocessor


@dataclass(frozen=True, slots=True)
class Case:
    """A spec, and `terms` of its pairs: of each the inner loop has one instruction `marker`. `moved`: bytes of its
    arrays."""

    name: str
    text: str
    terms: int
    marker: str
    moved: int


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """Instructions per term of the loop with the most terms; `share` of FP32 and special functions in all."""

    kernel: str
    fp32: float
    special: float
    share: float
    registers: int
    spills: int

    def bound_us(self, terms: int, sms: int, clock_mhz: float) -> float:
        """The time in which the device issues `terms` terms."""
        issued = max((self.fp32 + self.special) / (LANES * SCHEDULERS), self.special / SPECIAL_LANES)
        return terms * issued / (sms * clock_mhz)


def drawn(random: Random) -> Iterator[Case]:
    """One case of each kind."""
    n = random.randint(9_000, 70_000)
    yield n_body(n)
    m, n, features = random.randint(2_000, 9_000), random.randint(2_000, 9_000), random.randint(20, 200)
    arrays = {"x": f"[{m}, {features}] | float32", "y": f"[{n}, {features}] | float32", "d": f"[{m}, {n}] | float32"}
    moved = 4 * ((m + n) * features + m * n)
    for name, value in DISTANCES.items():
        text = spec_text(name.replace("-", "_"), {}, arrays, f"d[i, j] = {value}")
        yield Case(name, text, m * n * features, "FADD", moved)
    n, m, features = random.randint(90_000, 900_000), random.randint(100, 900), random.randint(3, 24)
    arrays = {"x": f"[{n}, {features}] | float32", "c": f"[{m}, {features}] | float32", "label": f"[{n}] | int64"}
    text = spec_text("kmeans", {}, arrays, "label[i] = argmin(sum((x[i, k] - c[m, k])**2, k), m)")
    yield Case("kmeans", text, n * m * features, "FADD", 4 * (n + m) * features + 8 * n)
    n, m = random.randint(9_000, 90_000), random.randint(9_000, 90_000)
    arrays = {"x": f"[{n}] | float32", "p": f"[{m}] | float32", "y": f"[{n}] | float32"}
    text = spec_text("density", {}, arrays, "y[i] = sum(exp(-(x[i] - p[j])**2), j)")
    yield Case("density", text, n * m, "MUFU", 4 * (2 * n + m))


def n_body(n: int) -> Case:
    """The accelerations of n bodies, each a position and a mass."""
    square = " + ".join(f"(p[j, {d}] - p[i, {d}])**2" for d in range(3))
    compute = "\n".join(
        f"a[i, {d}] = sum(p[j, 3] * (p[j, {d}] - p[i, {d}]) * rsqrt({square} + 0.001)**3, j)" for d in range(3)
    )
    text = spec_text("n_body", {}, {"p": f"[{n}, 4] | float32", "a": f"[{n}, 3] | float32"}, compute)
    return Case("n-body", text, n * n, "MUFU", 4 * 7 * n)


def inner_loop(kernel: Kernel, case: Case, capability: str) -> InnerLoop:
    """The loop without others in it that has the most terms."""
    cubin = compile_cubin(kernel.source, kernel.name, target_for(kernel.manifest, capability))
    loops: list[tuple[int, str, Counter[str]]] = []
    programs = parse(disassemble(cubin.image, lines=None))
    for name, program in programs.items():
        for first, last in program.loops:
            if any(first <= a and b <= last and (a, b) != (first, last) for a, b in program.loops):
                continue
            counts = Counter(i.name for i in program.instructions if first <= i.address <= last)
            loops.append((counts[case.marker], name, counts))
    terms, name, counts = max(loops, key=lambda loop: loop[0])
    fp32, special = sum(counts[op] for op in FP32), sum(counts[op] for op in SPECIAL)
    resources = cubin.kernels[name]
    spills = resources.spill_stores + resources.spill_loads
    share = (fp32 + special) / counts.total()
    return InnerLoop(name, fp32 / terms, special / terms, share, resources.registers, spills)


@contextmanager
def clocks() -> Iterator[list[int]]:
    """The clocks of the multiprocessors in MHz while the block runs, every 20 ms; none without nvidia-smi."""
    line = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "-lms", "20"]
    values: list[int] = []
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    try:
        yield values
    finally:
        process.terminate()
        text, _ = process.communicate()
        values += [int(value) for value in text.split() if value.isdigit()]


def row(opened: Session, case: Case) -> dict[str, Any]:
    """Medians in microseconds, and the issue bound at the highest clock measured."""
    (spec,) = load_text(case.text)
    kernel = generate(spec, remarks="none")
    loop = inner_loop(kernel, case, opened.capability)
    buffers = Buffers(opened, spec, kernel.manifest, known_params(spec, {}), 0)
    flushed = 0 if buffers.exceeds_the_cache else opened.allocate(3 * opened.l2_bytes)
    try:
        contender, _ = own_contender(opened, kernel.spec, kernel, buffers, {}, 0)
        flush = (lambda: opened.read(flushed, 3 * opened.l2_bytes)) if flushed else None
        with clocks() as measured:
            contenders = [Contender(case.name, contender.run)]
            times = measure(contenders, opened, Plan(buffers.count, flush, samples=60, budget_us=1e6))
            opened.synchronize()
    finally:
        buffers.release()
        if flushed:
            opened.release(flushed)
    # Between the runs the clock may be higher than under their load: the bound is the stricter for it.
    clock = max(measured)
    cold, warm = (times[regime][case.name].median for regime in ("cold", "warm"))
    issue = loop.bound_us(case.terms, opened.sms, clock)
    device = default_device(opened.capability)
    memory = case.moved / device.bandwidth * 1e6 if device is not None else 0.0
    bound = max(issue, memory)
    return {
        "case": case.name,
        "spec": case.text,
        "plan": plan_of(kernel),
        "cold_us": cold,
        "warm_us": warm,
        "clock_mhz": clock,
        "median_clock_mhz": median(measured),
        "issue_bound_us": issue,
        "memory_bound_us": memory,
        "bound_us": bound,
        "of_bound": bound / warm,
        **loop_figures(loop),
    }


def plan_of(kernel: Kernel) -> str:
    """The launches: family and block."""
    launches = (
        (k.name, k.family, *("x".join(map(str, sizes)) for sizes in (k.grid, k.block))) for k in kernel.plan.kernels
    )
    return "; ".join(f"{name} {family} {grid} of {block}" for name, family, grid, block in launches)


def compile_case(case: Case, capability: str) -> None:
    """Compiles a case's kernel into the cache."""
    (spec,) = load_text(case.text)
    kernel = generate(spec, remarks="none")
    compile_cubin(kernel.source, kernel.name, target_for(kernel.manifest, capability))


def loop_figures(loop: InnerLoop) -> Mapping[str, Any]:
    return {
        "fp32_per_term": loop.fp32,
        "special_per_term": loop.special,
        "share_of_loop": loop.share,
        "registers": loop.registers,
        "spill_bytes": loop.spills,
    }


def print_loops(cases: list[Case]) -> None:
    """The inner loops of all cases for sm_90, without a device."""
    for case in cases:
        (spec,) = load_text(case.text)
        kernel = generate(spec, remarks="none")
        figures = inner_loop(kernel, case, "sm_90")
        print(
            f"{case.name:10} {figures.fp32:6.2f} FP32 {figures.special:5.2f} special per term,"
            f" {figures.share:.3f} of the loop, {figures.registers} registers, {figures.spills} bytes spilled:"
            f" {plan_of(kernel)}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=3, help="of each kind")
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--sass", action="store_true", help="print the instructions of the inner loops, without a GPU")
    parser.add_argument("--output", type=Path, metavar="FILE", help="JSON file of the rows")
    args = parser.parse_args()
    random = Random(args.seed)
    cases = [n_body(16384), *(case for _ in range(args.cases) for case in drawn(random))]
    cases = [case for case in cases if case.name in args.kinds]
    if args.sass:
        print_loops(cases)
        return 0
    with session() as opened:
        rows = []
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            list(pool.map(compile_case, cases, [opened.capability] * len(cases)))
        for case in cases:
            entry = row(opened, case)
            rows.append(entry)
            print(
                f"{entry['case']:10} cold {entry['cold_us']:9.1f} us  warm {entry['warm_us']:9.1f} us  bound"
                f" {entry['bound_us']:9.1f} us: {entry['of_bound']:.3f}"
                f"  {entry['share_of_loop']:.3f} of the loop  {entry['plan']}",
                flush=True,
            )
        head = about(opened.device)
    if args.output:
        save(args.output, head | {"cases": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
