"""Drawn stencils and convolutions, timed with register windows, with halo tiles in shared memory, and as planned.

    python -m benchmarks.memory.windows [--seed 1] [--cases 40] [--output docs/results/windows_h200.json]

The regret of a case is the time of the plan without requests over the fastest of the three, in one run, with cold
caches. Extents, taps, strides, dilations, boundaries and types are drawn from the seed.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from statistics import geometric_mean
from typing import Any

from benchmarks.timing.cases import spec_text
from benchmarks.timing.figures import about, save
from cugen.bench.buffers import Buffers
from cugen.bench.measure import own_contender
from cugen.bench.protocol import Contender, Plan, measure
from cugen.bench.session import Session, session
from cugen.kernel import Kernel, generate
from cugen.runtime.gpu import target_for
from cugen.runtime.inputs import known_params
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_cubin

TYPES = ("float32", "float32", "float32", "float16", "float64", "uint8")
PLANNED = "planned"


def drawn(random: Random) -> dict[str, str]:
    """The specs of a case, by variant."""
    while math.prod(taps := _taps(random)) == 1:
        pass
    dimensions, dtype = len(taps), random.choice(TYPES)
    strides = [random.choice((1, 1, 1, 1, 2)) for _ in taps]
    dilation = random.choice((1, 1, 1, 2, 3))
    side = round(random.choice((2**20, 2**22, 2**24, 2**25)) ** (1 / dimensions))
    out = [max(8, int(side * random.uniform(0.7, 1.4))) for _ in taps]
    if random.random() < 0.5:
        out[-1] = -(-out[-1] // 32) * 32
    indices, moving = "ijk"[:dimensions], [d for d in range(dimensions) if taps[d] > 1]
    subscripts = [
        f"{stride}*{i} + {dilation}*{r} - {dilation * (count // 2)}" if count > 1 else f"{stride}*{i}"
        for stride, i, r, count in zip(strides, indices, "rst", taps, strict=False)
    ]
    along = ", ".join("rst"[d] for d in moving)
    read = f"x[{', '.join(subscripts)}]"
    inputs = [extent * stride for extent, stride in zip(out, strides, strict=True)]
    boundary = random.choice(("zero", "clamp", "reflect", "wrap"))
    arrays = {"x": f"{inputs} | {dtype} | boundary: {boundary}", "y": f"{out} | {dtype}"}
    form = random.choice(("mean", "weights", "max"))
    if form == "weights" and dtype != "uint8":
        weights = "float64" if dtype == "float64" else "float32"
        arrays["w"] = f"{[taps[d] for d in moving]} | {weights}"
        value = f"sum({read} * w[{along}], {along})"
    else:
        value = f"{'mean' if form == 'mean' and dtype != 'uint8' else 'max'}({read}, {along})"
    compute = f"y[{', '.join(indices)}] = {value}"
    more = f"indices: {{{', '.join(f'{r}: {count}' for r, count in zip('rst', taps, strict=False) if count > 1)}}}"
    text = spec_text("window", {}, arrays, compute, more)
    shared = arrays | {"x": f"{arrays['x']} | memory: shared"}
    return {
        PLANNED: text,
        "stencil": f"{text}schedule: {{family: stencil}}\n",
        "shared": spec_text("window", {}, shared, compute, more),
    }


def _taps(random: Random) -> list[int]:
    dimensions = random.choice((1, 2, 2, 2, 3))
    if dimensions == 1:
        return [random.choice((3, 7, 15, 31, 63))]
    return [random.choice((1, 3, 3, 5, 7, 9) if dimensions == 2 else (1, 3, 3, 5)) for _ in range(dimensions)]


def planned(text: str) -> Kernel | None:
    """The kernel of a variant; None if its family refuses it."""
    (spec,) = load_text(text)
    try:
        return generate(spec, remarks="none")
    except SpecError:
        return None


def compiled(text: str, capability: str) -> None:
    """Fills the cache of machine code."""
    if (kernel := planned(text)) is not None:
        compile_cubin(kernel.source, kernel.name, target_for(kernel.manifest, capability))


def row(opened: Session, variants: Mapping[str, str]) -> dict[str, Any]:
    """Cold medians of the variants in microseconds, their families, and the regret."""
    kernels = {name: kernel for name, text in variants.items() if (kernel := planned(text)) is not None}
    spec = kernels[PLANNED].spec
    buffers = Buffers(opened, spec, kernels[PLANNED].manifest, known_params(spec, {}), 0)
    flushed = 0 if buffers.exceeds_the_cache else opened.allocate(3 * opened.l2_bytes)
    try:
        contenders = []
        for name, kernel in kernels.items():
            contender, _ = own_contender(opened, kernel.spec, kernel, buffers, {}, 0)
            contenders.append(Contender(name, contender.run))
        flush = (lambda: opened.read(flushed, 3 * opened.l2_bytes)) if flushed else None
        cold = measure(contenders, opened, Plan(buffers.count, flush, samples=60, budget_us=1e5))["cold"]
        opened.synchronize()
    finally:
        buffers.release()
        if flushed:
            opened.release(flushed)
    times = {name: taken.median for name, taken in cold.items()}
    families = {name: "+".join(launch.family for launch in kernel.plan.kernels) for name, kernel in kernels.items()}
    return {
        "spec": variants[PLANNED],
        "families": families,
        "cold_us": times,
        "regret": times[PLANNED] / min(times.values()),
    }


def rows(cases: list[dict[str, str]]) -> Iterator[dict[str, Any]]:
    with session() as opened:
        with ProcessPoolExecutor() as pool:
            texts = [text for variants in cases for text in variants.values()]
            list(pool.map(compiled, texts, [opened.capability] * len(texts)))
        for variants in cases:
            yield row(opened, variants)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--output", type=Path, metavar="FILE", help="JSON file of the rows")
    args = parser.parse_args()
    random = Random(args.seed)
    found: list[dict[str, Any]] = []
    for measured in rows([drawn(random) for _ in range(args.cases)]):
        found.append(measured)
        times = "  ".join(f"{name} {us:.2f}" for name, us in measured["cold_us"].items())
        print(f"{measured['regret']:5.2f}  {measured['families'][PLANNED]:10} {times}", flush=True)
    worst = max(entry["regret"] for entry in found)
    mean = geometric_mean(entry["regret"] for entry in found)
    print(f"{len(found)} cases: regret {mean:.3f} in geometric mean, {worst:.3f} at worst")
    if args.output:
        with session() as opened:
            device = opened.device
        save(args.output, about(device) | {"mean": mean, "worst": worst, "cases": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
