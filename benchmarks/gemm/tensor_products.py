"""GEMMs of 16- and 8-bit types and tf32 on tensor cores, beside cuBLAS: times, errors and bits.

    python -m benchmarks.gemm.tensor_products [--target sm_90a] [--group cubes ...] [--seed 1] [--drawn 20]
                                         [--output docs/results/tensor_products_h100.json]
    python -m benchmarks.gemm.tensor_products --sustained [--output docs/results/tensor_products_sustained_h100.json]
    python -m benchmarks.gemm.tensor_products --sass

All cases of `tensor_products_cases.py`, or those of some groups. Inputs are uniform in [-1, 1], int8 over its range.
Caches are cold: 256 MB are overwritten before a sample (`write`), or read (`read`), which leaves no dirty lines in L2.
Samples of all contenders are interleaved in one process; times are medians in microseconds. The peer is the fastest of
PyTorch's function (`torch`), cuBLASLt's proposals (`cublasLt`) and, where it is installed, CuPy's matmul (`cupy`), a
ratio its time over that of cugen. PyTorch takes 8-bit floats as K-major only: it copies others first, within the time.
`error` is the greatest difference from float64 over the sum of the terms' magnitudes (that of the outputs' magnitude
with an epilogue), `peer_error` PyTorch's; `equal` tells whether 100 reruns gave the same bits. The layers are those of
`products.py`, in bfloat16.

With `--sustained` the largest cube of each type and layout runs for 3 seconds, contenders in turns, as clocks fall
under load. With `--sass` nothing is run: the instructions of the main loop of `mma.sync` kernels are printed for each
target, without a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import math
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.gemm.tensor_products_cases import GROUPS, RESULTS, Case, cases
from benchmarks.timing.figures import command, save
from cugen.abi.manifest import Manifest
from cugen.compiled.sass import parse
from cugen.kernel import Kernel, generate
from cugen.machine import architecture_specific
from cugen.runtime.call.callable import GpuFunction
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.toolchain.binary.disassembler import disassemble
from cugen.toolchain.cuda import compile_cubin
from cugen.toolchain.errors import CompileError

Call = Callable[[], Any]
Row = dict[str, Any]

SASS_TARGETS = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
SAMPLES, RERUNS, WARM_UPS = 15, 100, 2
PROPOSALS = 8  # of cuBLASLt's heuristic that are tried; all 32 would take minutes
FLUSHED = 1 << 26  # float32 elements that are overwritten or read before each sample
IDLE_CYCLES = 1_500_000  # of the GPU before each sample, so that no launch is late
SUSTAINED_S, TURN_MS = 3.0, 50.0


@dataclass(frozen=True)
class Built:
    """Source of a case's kernel, and its config in words; `failure` if there is none."""

    source: str = ""
    manifest: Manifest | None = None
    config: str = ""
    failure: str = ""


def built(case: Case, target: str, more: str = "") -> Built:
    """The kernel of a case, whose machine code is in the cache; its spec may have `more` lines such as a schedule."""
    try:
        kernel = generate(load_text(case.spec(target, more))[0], analysis=False)
        compile_cubin(kernel.source, kernel.name, target)
    except (SpecError, CompileError) as error:
        return Built(failure=str(error))
    return Built(kernel.source, kernel.manifest, config_of(kernel))


def config_of(kernel: Kernel) -> str:
    """Family and config of the GEMM, which is the last launch, and what it needs beside."""
    *copies, gemm = kernel.plan.kernels
    cluster = kernel.manifest.launches[-1].cluster
    more = [f"clusters of {cluster}"] * (cluster > 1) + [f"{len(copies)} copies before"] * bool(copies)
    return "; ".join((f"{gemm.family}: {gemm.reasons[0]}", *more))


class Inputs:
    """Operands of a case as they are stored, as [M, K] and [K, N], and the bias of an epilogue."""

    def __init__(self, torch: Any, case: Case) -> None:
        m, n, k = case.sizes
        is_a_transposed, is_b_transposed = (letter == "t" for letter in case.layout)
        self.stored_a = uniform(torch, case.dtype, (k, m) if is_a_transposed else (m, k))
        self.stored_b = uniform(torch, case.dtype, (n, k) if is_b_transposed else (k, n))
        self.a = self.stored_a.T if is_a_transposed else self.stored_a
        self.b = self.stored_b.T if is_b_transposed else self.stored_b
        self.bias: Any = uniform(torch, case.dtype, (n,)) if case.has_epilogue else None


def uniform(torch: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    if dtype == "int8":
        return torch.randint(-128, 128, shape, dtype=torch.int8, device="cuda")
    return (2 * torch.rand(shape, device="cuda") - 1).to(torch_type(torch, dtype))


def torch_type(torch: Any, dtype: str) -> Any:
    return getattr(torch, dtype.replace("e4m3", "e4m3fn"))


def own_call(torch: Any, case: Case, kernel: Built, inputs: Inputs, result: Any) -> Call:
    """cugen's GEMM into `result`."""
    assert kernel.manifest is not None
    function = GpuFunction(kernel.source, kernel.manifest)
    arrays = {"A": inputs.stored_a, "B": inputs.stored_b, "C": result}
    if case.has_epilogue:
        arrays["bias"] = inputs.bias
    return partial(function, arrays, stream=torch.cuda.current_stream())


def torch_call(torch: Any, case: Case, inputs: Inputs) -> Call:
    """PyTorch's function for the case."""
    a, b, bias = inputs.a, inputs.b, inputs.bias
    if case.has_epilogue:
        return lambda: torch.nn.functional.gelu(torch.addmm(bias, a, b), approximate="tanh")
    if case.dtype == "int8":
        return lambda: torch._int_mm(a, b)
    if case.dtype == "float8_e4m3":
        unit = torch.ones((), device="cuda")
        options = {"scale_a": unit, "scale_b": unit, "out_dtype": torch.bfloat16, "use_fast_accum": case.is_fast}
        if case.layout == "nt":
            return lambda: torch._scaled_mm(a, b, **options)
        return lambda: torch._scaled_mm(a.contiguous(), b.T.contiguous().T, **options)
    return lambda: torch.matmul(a, b)


def cublaslt_call(case: Case, inputs: Inputs) -> Call:
    import cublaslt

    is_fast = case.is_fast or case.dtype == "float32"
    return lambda: cublaslt.matmul(inputs.a, inputs.b, gelu_bias=inputs.bias, is_fast=is_fast, proposals=PROPOSALS)


def cupy_call(torch: Any, case: Case, inputs: Inputs) -> Call:
    """CuPy's matmul of the same memory, of which it knows float16 and float32; from version 14 on bfloat16, too.
    ImportError where it isn't installed, ValueError or TypeError for another type."""
    import cupy

    if case.has_epilogue or case.dtype not in ("float16", "bfloat16", "float32"):
        raise ValueError(f"CuPy has no such product of {case.dtype}")
    a, b = cupy.from_dlpack(inputs.a), cupy.from_dlpack(inputs.b)
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

    def call() -> Any:
        with stream:
            return cupy.matmul(a, b)

    return call


def contenders(torch: Any, case: Case, kernel: Built, inputs: Inputs, result: Any) -> dict[str, Call]:
    """Calls by name, without those of libraries that don't take the case."""
    calls = {"cugen": own_call(torch, case, kernel, inputs, result)}
    peers: dict[str, Callable[[], Call]] = {
        "torch": lambda: torch_call(torch, case, inputs),
        "cublasLt": lambda: cublaslt_call(case, inputs),
        "cupy": lambda: cupy_call(torch, case, inputs),
    }
    for name, make in peers.items():
        try:
            call = make()
            call()
        except (ImportError, RuntimeError, TypeError, ValueError):
            continue
        calls[name] = call
    return calls


def timed(torch: Any, calls: dict[str, Call], spare: Any) -> dict[str, dict[str, float]]:
    """Median microseconds of each call by the kind of flush, samples interleaved."""
    flushes: dict[str, Call] = {"write": lambda: spare.fill_(1.0), "read": lambda: spare.sum()}
    samples: dict[tuple[str, str], list[float]] = defaultdict(list)
    for call in calls.values():
        for _ in range(WARM_UPS):
            call()
    for sample in range(SAMPLES):
        # The first one after a flush of the other kind finds some of its dirty lines: in turns it is each of them.
        first = sample % len(calls)
        turns = [*calls.items()][first:] + [*calls.items()][:first]
        events = {}
        for flush, clear in flushes.items():
            for name, call in turns:
                start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                clear()
                torch.cuda._sleep(IDLE_CYCLES)
                start.record()
                call()
                stop.record()
                events[flush, name] = start, stop
        torch.cuda.synchronize()
        for key, (start, stop) in events.items():
            samples[key].append(1e3 * start.elapsed_time(stop))
    return {flush: {name: statistics.median(samples[flush, name]) for name in calls} for flush in flushes}


def sustained(torch: Any, calls: dict[str, Call]) -> dict[str, float]:
    """Median microseconds of each call in turns of 50 ms, for 3 seconds."""
    runs, samples = dict.fromkeys(calls, 1), defaultdict(list)
    end = time.monotonic() + SUSTAINED_S
    while time.monotonic() < end:
        for name, call in calls.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(runs[name]):
                call()
            stop.record()
            torch.cuda.synchronize()
            us = 1e3 * start.elapsed_time(stop) / runs[name]
            samples[name].append(us)
            runs[name] = max(math.ceil(1e3 * TURN_MS / us), 1)
    return {name: statistics.median(times[1:] or times) for name, times in samples.items()}


def ratio_of(times: dict[str, float]) -> float | None:
    """Time of the fastest peer over that of cugen; None without a peer."""
    peers = [us for name, us in times.items() if name != "cugen"]
    return round(min(peers) / times["cugen"], 3) if peers else None


def measured(torch: Any, case: Case, kernel: Built, spare: Any, *, is_sustained: bool) -> Row:
    """Times, errors and reproducibility of a case."""
    about: Row = {"group": case.group, "type": case.dtype, "layout": case.layout, "sizes": case.sizes}
    if kernel.failure:
        return {**about, "failure": kernel.failure}
    m, n, _ = case.sizes
    inputs = Inputs(torch, case)
    result = torch.empty((m, n), dtype=torch_type(torch, RESULTS[case.dtype]), device="cuda")
    calls = contenders(torch, case, kernel, inputs, result)
    if is_sustained:
        times = {"sustained": sustained(torch, calls)}
        checks: Row = {}
    else:
        checks = checked(torch, case, inputs, result, calls)
        times = timed(torch, calls, spare)
    ratios = {f"ratio_{kind}": ratio_of(of_kind) for kind, of_kind in times.items()}
    return {**about, **times, **ratios, **checks, "config": kernel.config}


def checked(torch: Any, case: Case, inputs: Inputs, result: Any, calls: dict[str, Call]) -> Row:
    """Errors of cugen and PyTorch against float64, and whether reruns gave the same bits."""
    a, b = inputs.a.double(), inputs.b.double()
    exact, magnitude = a @ b, a.abs() @ b.abs()
    if inputs.bias is not None:
        exact = torch.nn.functional.gelu(exact + inputs.bias.double(), approximate="tanh")
        magnitude = magnitude + inputs.bias.double().abs()

    def error(computed: Any) -> float:
        return float(((computed.double() - exact).abs() / magnitude.clamp(min=1e-30)).max())

    calls["cugen"]()
    bits = result.view(torch.uint8).clone()
    equal = True
    for _ in range(RERUNS):
        result.view(torch.uint8).fill_(0x5A)
        calls["cugen"]()
        equal = equal and torch.equal(result.view(torch.uint8), bits)
    errors = {"error": error(result)}
    if "torch" in calls:
        errors["peer_error"] = error(calls["torch"]())
    return {**errors, "equal": equal}


def line_of(row: Row) -> str:
    """A row as a line of text."""
    name = f"{row['group']:<11} {row['type']:<11} {row['layout']} {'x'.join(map(str, row['sizes'])):<16}"
    if "failure" in row:
        return f"{name} FAILED: {row['failure'].splitlines()[0]}"
    parts = []
    for kind in ("write", "read", "sustained"):
        if kind in row:
            times = " ".join(f"{contender} {us:.1f}" for contender, us in row[kind].items())
            parts.append(f"{kind}: {times} ratio {row[f'ratio_{kind}']}")
    if "error" in row:
        peer = f" (torch {row['peer_error']:.1e})" if "peer_error" in row else ""
        parts.append(f"error {row['error']:.1e}{peer}" + ("" if row["equal"] else " BITS DIFFER"))
    return f"{name} {' | '.join(parts)} | {row['config']}"


def summary(rows: Iterable[Row]) -> Iterator[Row]:
    """Geometric mean and worst of the ratios by group, type and layout, and of all, for each way to time."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        for kind in ("write", "read", "sustained"):
            if row.get(f"ratio_{kind}") is not None:
                for name in (f"{row['group']} {row['type']} {row['layout']}", f"{row['group']} {row['type']}", "all"):
                    groups[name, kind].append(row)
    for (name, kind), of_group in sorted(groups.items(), key=lambda item: (item[0][1], item[0][0])):
        worst = min(of_group, key=lambda row: float(row[f"ratio_{kind}"]))
        mean = statistics.geometric_mean(row[f"ratio_{kind}"] for row in of_group)
        worst_case = f"{worst['type']} {worst['layout']} {'x'.join(map(str, worst['sizes']))}"
        yield {
            "group": name,
            "timing": kind,
            "cases": len(of_group),
            "geometric_mean": round(mean, 3),
            "worst": worst[f"ratio_{kind}"],
            "worst_case": worst_case,
        }


def largest(wanted: list[Case]) -> list[Case]:
    """The cubes with the most multiply-adds of each group, type and layout."""
    best: dict[tuple[str, str, str], Case] = {}
    for case in wanted:
        key = case.group, case.dtype, case.layout
        if case.group != "drawn" and len(set(case.sizes)) == 1:
            best[key] = max(best.get(key, case), case, key=lambda case: case.multiply_adds)
    return list(best.values())


def main_loops(dtype: str) -> Iterator[str]:
    """Instructions of a warp's main loop for one k-tile of 64 bytes, of a warp tile of 64 x 64 in K-major operands."""
    size = {"float32": 4, "float16": 2, "bfloat16": 2}.get(dtype, 1)
    schedule = (
        f"block: {{m: 128, n: 128}}, thread: {{m: 8, n: 16}}, step: {{k: {64 // size}}}, stages: 4, cores: tensor"
    )
    case = Case("cubes", dtype, "nt", (4096, 4096, 4096))
    for target in SASS_TARGETS:
        try:
            kernel = generate(load_text(case.spec(target, f"schedule: {{family: gemm, {schedule}}}\n"))[0])
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


def run(arguments: argparse.Namespace) -> None:
    """Compiles and measures the cases."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    target = arguments.target or architecture_specific("sm_{}{}".format(*torch.cuda.get_device_capability()))
    chosen = [c for c in cases(Random(arguments.seed), arguments.drawn) if c.group in arguments.group]
    chosen = largest(chosen) if arguments.sustained else chosen
    print(f"{torch.cuda.get_device_name()}, {target}, seed {arguments.seed}, {len(chosen)} cases", flush=True)
    begin = time.monotonic()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        kernels = list(pool.map(built, chosen, [target] * len(chosen)))
    print(f"compiled in {time.monotonic() - begin:.0f} s", flush=True)
    spare = torch.empty(FLUSHED, device="cuda")
    rows = []
    for case, kernel in zip(chosen, kernels, strict=True):
        rows.append(measured(torch, case, kernel, spare, is_sustained=arguments.sustained))
        print(line_of(rows[-1]), flush=True)
    means = list(summary(rows))
    for mean in means:
        print("{group}, {timing}: geometric mean {geometric_mean}, worst {worst} ({worst_case})".format(**mean))
    if arguments.output:
        about = {"device": torch.cuda.get_device_name(), "date": datetime.date.today().isoformat(), "target": target}
        about |= {"torch": torch.__version__, "seed": arguments.seed}
        save(Path(arguments.output), {"command": command(), **about, "means": means, "rows": rows})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", help="by default the architecture-specific one of the GPU")
    parser.add_argument("--group", nargs="+", choices=GROUPS, default=GROUPS, help="cases to measure")
    parser.add_argument("--seed", type=int, default=1, help="of the drawn shapes")
    parser.add_argument("--drawn", type=int, default=20, help="drawn shapes")
    parser.add_argument("--output", help="JSON file")
    parser.add_argument("--sustained", action="store_true", help="the largest cubes, for 3 s each")
    parser.add_argument("--sass", action="store_true", help="print the instructions of main loops, without a GPU")
    arguments = parser.parse_args()
    if arguments.sass:
        for dtype in RESULTS:
            for line in main_loops(dtype):
                print(line, flush=True)
    else:
        run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
