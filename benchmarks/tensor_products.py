"""GEMMs of 16- and 8-bit types and tf32 on tensor cores, in time and bits beside cuBLAS, as PyTorch calls it.

    python benchmarks/tensor_products.py [--seed 1] [--cases 24] [--output docs/results/tensor_products_h200.json]
    python benchmarks/tensor_products.py --sass

Squares of 2048 to 8192 of each type, then shapes drawn from the seed: log-uniform from 32 to 6000 along each axis,
about half of them multiples of 8. Caches are cold, samples interleaved, medians shown; `error` is the greatest
difference from float64 over the sum of the terms' magnitudes, `equal` whether 100 reruns gave the same bits. With
`--sass` nothing is run: the instructions of the main loop are printed for each target, and needs no GPU.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from figures import command, save

import cugen
from cugen.compiled.sass import parse
from cugen.kernel import generate
from cugen.runtime.gpu import target_for
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.toolchain.binary.disassembler import disassemble
from cugen.toolchain.cuda import compile_cubin

# Types of operands and of C; float32 in tf32.
TYPES = {"float16": "float16", "bfloat16": "bfloat16", "int8": "int32", "float8_e4m3": "bfloat16", "float32": "float32"}
TARGETS = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
SQUARES = (2048, 4096, 8192)
SAMPLES, RERUNS = 15, 100
FLUSHED = 1 << 26  # float32 elements that are overwritten before each sample
IDLE_CYCLES = 1_500_000  # of the GPU before each sample, so that no launch is late


def shapes(random: Random, count: int) -> Iterator[tuple[str, tuple[bool, bool], tuple[int, int, int]]]:
    """Types, whether A and B are K-major, and M, N and K."""
    for dtype in TYPES:
        yield from ((dtype, (True, True), (n, n, n)) for n in SQUARES)
    for _ in range(count):
        sizes = [int(32 * (6000 / 32) ** random.random()) for _ in range(3)]
        if random.random() < 0.5:
            sizes = [size // 8 * 8 for size in sizes]
        m, n, k = sizes
        k_major = random.random() < 0.5, random.random() < 0.5
        yield random.choice(("float16", "bfloat16", "int8", "float32")), k_major, (m, n, k)


def spec_of(
    dtype: str, k_major: tuple[bool, bool], sizes: tuple[int, int, int], target: str = "sm_90", more: str = ""
) -> str:
    a, b = ("m, k" if k_major[0] else "k, m"), ("n, k" if k_major[1] else "k, n")
    m, n, k = sizes
    return f"""
cugen: 1
kernel: product
target: {target}
params: {{M: {m}, N: {n}, K: {k}}}
arrays:
  A: {{shape: [{a.upper()}], dtype: {dtype}}}
  B: {{shape: [{b.upper()}], dtype: {dtype}}}
  C: {{shape: [M, N], dtype: {TYPES[dtype]}}}
compute: C[m, n] = sum(A[{a}] * B[{b}], k)
accumulate: {{tf32: true}}
{more}"""


def peer_of(torch: Any, dtype: str, a: Any, b: Any) -> Callable[[], Any]:
    """The library's product of [M, K] and [K, N]."""
    if dtype == "int8":
        return lambda: torch._int_mm(a, b)
    if dtype.startswith("float8"):
        scale = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)
    return lambda: torch.matmul(a, b)


def main_loops(dtype: str) -> Iterator[str]:
    """Instructions of a warp's main loop for one k-tile of 64 bytes, of a warp tile of 64 x 64 in K-major operands."""
    size = {"float32": 4, "float16": 2, "bfloat16": 2}.get(dtype, 1)
    schedule = (
        f"block: {{m: 128, n: 128}}, thread: {{m: 8, n: 16}}, step: {{k: {64 // size}}}, stages: 4, cores: tensor"
    )
    for target in TARGETS:
        text = spec_of(dtype, (True, True), (4096, 4096, 4096), target, f"schedule: {{family: gemm, {schedule}}}\n")
        try:
            kernel = generate(load_text(text)[0])
        except SpecError:
            continue
        cubin = compile_cubin(kernel.source, kernel.name, target)
        ((name, program),) = parse(disassemble(cubin.image, lines=None)).items()
        loops = [[i for i in program.instructions if first <= i.address <= last] for first, last in program.loops]
        products, loop = max(((sum("MMA" in i.name for i in loop), loop) for loop in loops), key=lambda pair: pair[0])
        counts = Counter(i.name for i in loop).most_common(5)
        per_thousand = 1000 * len(loop) / (64 * 64 * 64 // size)
        spills = cubin.kernels[name].spill_stores
        listed = ", ".join(f"{count} {opcode}" for opcode, count in counts)
        registers = f"{cubin.kernels[name].registers} registers, {spills} bytes spilled"
        yield (
            f"{dtype} {target}: {len(loop)} instructions, {per_thousand:.2f} for 1000 multiply-adds, {products} "
            f"of them MMA; {registers}; {listed}"
        )


def compiled(case: tuple[str, tuple[bool, bool], tuple[int, int, int]], capability: str) -> None:
    """Fills the cache of machine code."""
    kernel = generate(load_text(spec_of(*case))[0], remarks="none")
    compile_cubin(kernel.source, kernel.name, target_for(kernel.manifest, capability))


def timed(torch: Any, calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median microseconds of each call, samples interleaved."""
    flushed = torch.empty(FLUSHED, device="cuda")
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(SAMPLES):
        for name, call in calls.items():
            flushed.fill_(1.0)
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(IDLE_CYCLES)
            start.record()
            call()
            stop.record()
            torch.cuda.synchronize()
            samples[name].append(1e3 * start.elapsed_time(stop))
    return {name: round(statistics.median(times), 1) for name, times in samples.items()}


def measured(torch: Any, dtype: str, k_major: tuple[bool, bool], sizes: tuple[int, int, int]) -> dict[str, Any]:
    """Times, error and reproducibility of one product."""
    m, n, k = sizes

    def operand(shape: tuple[int, int]) -> Any:
        if dtype == "int8":
            return torch.randint(-128, 128, shape, dtype=torch.int8, device="cuda")
        return (2 * torch.rand(shape, device="cuda") - 1).to(getattr(torch, dtype.replace("e4m3", "e4m3fn")))

    stored_a, stored_b = operand((m, k) if k_major[0] else (k, m)), operand((n, k) if k_major[1] else (k, n))
    a, b = stored_a if k_major[0] else stored_a.T, stored_b.T if k_major[1] else stored_b
    product = cugen.torch_op(load_text(spec_of(dtype, k_major, sizes))[0])
    result = product(stored_a, stored_b)
    exact, magnitude = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    error = ((result.double() - exact).abs() / magnitude.clamp(min=1e-30)).max().item()
    bits = result.view(torch.uint8)
    equal = all(torch.equal(product(stored_a, stored_b).view(torch.uint8), bits) for _ in range(RERUNS))
    calls = {"cugen": lambda: product(stored_a, stored_b)}
    peer = peer_of(torch, dtype, a, b)
    try:
        peer()
        calls["cublas"] = peer
    except RuntimeError:
        pass  # what the library does not take: its row has no time
    times = timed(torch, calls)
    ratio = round(times["cublas"] / times["cugen"], 3) if "cublas" in times else None
    layout = "".join("t" if major else "n" for major in k_major)
    return {"type": dtype, "k_major": layout, "sizes": sizes, **times, "ratio": ratio, "error": error, "equal": equal}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=24)
    parser.add_argument("--output")
    parser.add_argument("--sass", action="store_true", help="print the instructions of main loops, without a GPU")
    arguments = parser.parse_args()
    if arguments.sass:
        for dtype in TYPES:
            for line in main_loops(dtype):
                print(line, flush=True)
        return 0
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    rows = []
    cases = list(shapes(Random(arguments.seed), arguments.cases))
    major, minor = torch.cuda.get_device_capability()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        list(pool.map(compiled, cases, [f"sm_{major}{minor}"] * len(cases)))
    for dtype, k_major, sizes in cases:
        rows.append(measured(torch, dtype, k_major, sizes))
        print(rows[-1], flush=True)
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    print(f"geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios)}")
    if arguments.output:
        about = {"device": torch.cuda.get_device_name(), "date": datetime.date.today().isoformat()}
        save(Path(arguments.output), {"command": command(), **about, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
