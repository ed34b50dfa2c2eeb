"""Memory-bound kernels of drawn sizes: as planned, beside a device copy or read of as many bytes, and PyTorch.

    python -m benchmarks.memory.drawn_memory [--seed 1] [--cases 30] [--output docs/results/drawn_memory_h100.json]

After the listed cases, others are drawn from the seed: rows of 128 to 130,000 elements, half of them odd, in float32
and bfloat16, 2^27 elements or fewer. Caches are cold and samples interleaved; results are compared with PyTorch's. It
has no ratio where they differ: it rounds the running sums of long scans to bfloat16. The share of a case is the time of
a copy (of a reduction: of a read) over that of the plan, its ratio that of PyTorch in eager mode. With `--compile` the
peer is also timed as compiled by `torch.compile`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import geometric_mean
from typing import Any

from benchmarks.timing.cases import spec_text
from benchmarks.timing.figures import about, save
from cugen.bench.buffers import Buffers
from cugen.bench.libraries import library
from cugen.bench.measure import COPY, READ, own_contender
from cugen.bench.peers import Called, enter
from cugen.bench.protocol import Contender, Plan, measure
from cugen.bench.session import Session, session
from cugen.kernel import Kernel, generate
from cugen.runtime.gpu import target_for
from cugen.runtime.inputs import known_params
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_cubin

PLANNED, TORCH, COMPILED = "planned", "torch", "torch.compile"
F32, BF16 = "float32", "bfloat16"
MIN_LENGTH, MAX_LENGTH = 128, 130_000
ELEMENTS = 1 << 27
_SAMPLES, _BUDGET_US = 25, 2e4
_MAX_WRITE_SHARE_OF_READ = 1 / 16  # of all bytes, below which the ceiling is a read


@dataclass(frozen=True)
class Case:
    """`arrays` are names with shapes, and maybe options: `[8, 9] | boundary: zero`. `peer` is an expression of PyTorch
    with the spec's inputs, the tuple of the outputs."""

    kind: str
    sizes: tuple[int, ...]
    dtype: str
    arrays: tuple[tuple[str, str], ...]
    compute: str
    peer: str
    more: str = ""

    @property
    def name(self) -> str:
        short = {F32: "f32", BF16: "bf16"}[self.dtype]
        return f"{self.kind} {short} {'×'.join(map(str, self.sizes))}"

    @property
    def text(self) -> str:
        arrays = {}
        for name, declaration in self.arrays:
            shape, *options = declaration.split(" | ")
            arrays[name] = " | ".join((shape, self.dtype, *options))
        return spec_text(self.kind, {}, arrays, self.compute, self.more)

    def called(self, name: str) -> Called:
        inputs = ", ".join(name for name, _ in self.arrays if name not in self._outputs)
        return Called(
            {TORCH: "torch", COMPILED: "triton"}[name], name, f"def peer({inputs}):\n    return {self.peer}\n"
        )

    @property
    def _outputs(self) -> set[str]:
        return {line.partition("[")[0] for line in self.compute.splitlines()}


def _rows(kind: str, rows: int, columns: int, dtype: str, compute: str, peer: str, *, per_row: bool = False) -> Case:
    """A case of rows [rows, columns] with outputs of a value per row or per element."""
    x = f"[{rows}, {columns}]"
    vectors = {name: f"[{columns}]" for name in ("gamma", "beta", "bias") if name in compute}
    targets = [line.partition("[")[0] for line in compute.splitlines()]
    outputs = {name: f"[{rows}]" if per_row else x for name in targets if name not in ("mu", "scale")}
    return Case(kind, (rows, columns), dtype, tuple({"x": x, **vectors, **outputs}.items()), compute, peer)


def transpose(rows: int, columns: int, dtype: str) -> Case:
    arrays = ("x", f"[{rows}, {columns}]"), ("y", f"[{columns}, {rows}]")
    return Case("transpose", (rows, columns), dtype, arrays, "y[j, i] = x[i, j]", "(x.T.contiguous(),)")


def permute(sizes: tuple[int, int, int], order: tuple[int, int, int], dtype: str) -> Case:
    target = ", ".join("ijk"[axis] for axis in order)
    shape = [sizes[axis] for axis in order]
    peer = f"(x.permute({', '.join(map(str, order))}).contiguous(),)"
    kind = "permute_" + "".join(map(str, order))
    arrays = ("x", str(list(sizes))), ("y", str(shape))
    return Case(kind, sizes, dtype, arrays, f"y[{target}] = x[i, j, k]", peer)


def row_sum(rows: int, columns: int, dtype: str) -> Case:
    return _rows("row_sum", rows, columns, dtype, "y[i] = sum(x[i, j], j)", "(x.sum(1),)", per_row=True)


def column_sum(rows: int, columns: int, dtype: str) -> Case:
    arrays = ("x", f"[{rows}, {columns}]"), ("y", f"[{columns}]")
    return Case("column_sum", (rows, columns), dtype, arrays, "y[j] = sum(x[i, j], i)", "(x.sum(0),)")


def extremes(rows: int, columns: int, dtype: str) -> Case:
    compute = "lo[i] = min(x[i, j], j)\nhi[i] = max(x[i, j], j)"
    return _rows("extremes", rows, columns, dtype, compute, "tuple(x.aminmax(dim=1))", per_row=True)


def scan(rows: int, columns: int, dtype: str) -> Case:
    return _rows("scan", rows, columns, dtype, "y[i, j] = cumsum(x[i, j], j)", "(x.cumsum(1),)")


def softmax(rows: int, columns: int, dtype: str) -> Case:
    return _rows("softmax", rows, columns, dtype, "y[i, j] = softmax(x[i, j], j)", "(torch.softmax(x, 1),)")


def layer_norm(rows: int, columns: int, dtype: str) -> Case:
    compute = (
        "mu[i] = mean(x[i, j], j)\nscale[i] = rsqrt(var(x[i, j], j) + 1e-5)\n"
        "y[i, j] = (x[i, j] - mu[i]) * scale[i] * gamma[j] + beta[j]"
    )
    peer = f"(torch.nn.functional.layer_norm(x, ({columns},), gamma, beta, 1e-5),)"
    return _rows("layer_norm", rows, columns, dtype, compute, peer)


def rms_norm(rows: int, columns: int, dtype: str) -> Case:
    compute = "scale[i] = rsqrt(mean(x[i, j] * x[i, j], j) + 1e-6)\ny[i, j] = x[i, j] * scale[i] * gamma[j]"
    peer = f"(torch.nn.functional.rms_norm(x, ({columns},), gamma, 1e-6),)"
    return _rows("rms_norm", rows, columns, dtype, compute, peer)


def broadcast(rows: int, columns: int, dtype: str) -> Case:
    return _rows("bias", rows, columns, dtype, "y[i, j] = x[i, j] + bias[j]", "(x + bias,)")


def jacobi(rows: int, columns: int, dtype: str) -> Case:
    arrays = ("x", f"[{rows}, {columns}] | boundary: zero"), ("y", f"[{rows}, {columns}]")
    compute = "y[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])"
    taps = "torch.tensor([[0, 0.25, 0], [0.25, 0, 0.25], [0, 0.25, 0]], device=x.device, dtype=x.dtype)"
    peer = f"(torch.nn.functional.conv2d(x[None, None], {taps}[None, None], padding=1)[0, 0],)"
    return Case("jacobi", (rows, columns), dtype, arrays, compute, peer)


def sigmoid(rows: int, columns: int, dtype: str) -> Case:
    return _rows("sigmoid", rows, columns, dtype, "y[i, j] = sigmoid(x[i, j])", "(torch.sigmoid(x),)")


def batch_norm(batch: int, channels: int, pixels: int, dtype: str) -> Case:
    shape = f"[{batch}, {channels}, {pixels}]"
    arrays = ("x", shape), ("gamma", f"[{channels}]"), ("beta", f"[{channels}]"), ("y", shape)
    compute = (
        "mu[c] = mean(x[n, c, p], n, p)\nscale[c] = rsqrt(var(x[n, c, p], n, p) + 1e-5)\n"
        "y[n, c, p] = (x[n, c, p] - mu[c]) * scale[c] * gamma[c] + beta[c]"
    )
    peer = "(torch.nn.functional.batch_norm(x, None, None, gamma, beta, True, 0.1, 1e-5),)"
    return Case("batch_norm", (batch, channels, pixels), dtype, arrays, compute, peer)


def group_norm(batch: int, groups: int, channels: int, pixels: int, dtype: str) -> Case:
    """`channels` of each group."""
    shape, per_channel = f"[{batch}, {groups}, {channels}, {pixels}]", f"[{groups}, {channels}]"
    arrays = ("x", shape), ("gamma", per_channel), ("beta", per_channel), ("y", shape)
    compute = (
        "mu[n, g] = mean(x[n, g, c, p], c, p)\nscale[n, g] = rsqrt(var(x[n, g, c, p], c, p) + 1e-5)\n"
        "y[n, g, c, p] = (x[n, g, c, p] - mu[n, g]) * scale[n, g] * gamma[g, c] + beta[g, c]"
    )
    peer = (
        f"(torch.nn.functional.group_norm(x.reshape({batch}, {groups * channels}, {pixels}), {groups}, "
        "gamma.reshape(-1), beta.reshape(-1), 1e-5).reshape(x.shape),)"
    )
    return Case("group_norm", (batch, groups, channels, pixels), dtype, arrays, compute, peer)


def average_pool(rows: int, columns: int, dtype: str) -> Case:
    """Windows of 3, 2 apart."""
    outputs = (columns - 3) // 2 + 1
    arrays = ("x", f"[{rows}, {columns}]"), ("y", f"[{rows}, {outputs}]")
    peer = "(torch.nn.functional.avg_pool1d(x, 3, 2),)"
    compute, more = "y[i, j] = mean(x[i, 2 * j + r], r)", "indices: {r: 3}"
    return Case("average_pool", (rows, columns), dtype, arrays, compute, peer, more)


def pixels(rows: int, columns: int, dtype: str) -> Case:
    """`rows` × `columns` pixels of four planes that are transposed."""
    planes = tuple((name, f"[{columns}, {rows}]") for name in "rgba")
    compute = "\n".join(f"y[i, j, {field}] = {name}[j, i]" for field, name in enumerate("rgba"))
    peer = "(torch.stack((r.T, g.T, b.T, a.T), -1),)"
    return Case("pixels", (rows, columns), dtype, (*planes, ("y", f"[{rows}, {columns}, 4]")), compute, peer)


def narrow_scan(count: int, length: int, columns: int, dtype: str) -> Case:
    """Along few adjacent columns."""
    shape = f"[{count}, {length}, {columns}]"
    compute, peer = "y[n, i, c] = cumsum(x[n, i, c], i)", "(x.cumsum(1),)"
    return Case("narrow_scan", (count, length, columns), dtype, (("x", shape), ("y", shape)), compute, peer)


LISTED = (
    permute((12, 39882, 447), (2, 1, 0), BF16),
    permute((12, 39882, 447), (1, 0, 2), BF16),
    permute((12, 39882, 447), (0, 2, 1), BF16),
    row_sum(686439, 194, BF16),
    layer_norm(2800, 47193, BF16),
    extremes(36000, 3690, BF16),
    scan(2400, 54923, BF16),
    column_sum(21973, 1855, F32),
    sigmoid(16384, 8192, BF16),
    softmax(340, 393216, BF16),
    batch_norm(64, 256, 56 * 56, F32),
    group_norm(64, 32, 8, 56 * 56, F32),
    average_pool(4096, 32769, F32),
    pixels(4096, 6000, F32),
    pixels(8192, 8000, BF16),
    narrow_scan(1097152, 8, 4, F32),
)
KINDS = (transpose, row_sum, extremes, scan, softmax, layer_norm, rms_norm, broadcast, jacobi, column_sum)


def drawn(random: Random) -> Iterator[Case]:
    """The kinds in turn, and a permute after them; lengths are log-uniform."""
    while True:
        for kind in KINDS:
            columns = int(MIN_LENGTH * (MAX_LENGTH / MIN_LENGTH) ** random.random())
            columns = columns | 1 if random.random() < 0.5 else columns & ~1
            rows = max(ELEMENTS // columns - random.randrange(64), 1)
            yield kind(rows, columns, random.choice((F32, BF16)))
        sizes = random.randrange(3, 64), random.randrange(100, 2000), random.randrange(100, 2000)
        order = random.choice(((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)))
        yield permute(sizes, order, random.choice((F32, BF16)))


def planned(case: Case) -> Kernel:
    (spec,) = load_text(case.text)
    return generate(spec, remarks="none")


def compiled(case: Case, capability: str) -> None:
    """Fills the cache of machine code."""
    kernel = planned(case)
    compile_cubin(kernel.source, kernel.name, target_for(kernel.manifest, capability))


def row(opened: Session, case: Case, peers: tuple[str, ...]) -> dict[str, Any]:
    """Cold medians in microseconds, the share of the ceiling and the ratios to the peers."""
    kernel = planned(case)
    buffers = Buffers(opened, kernel.spec, kernel.manifest, known_params(kernel.spec, {}), 0)
    half = -(-buffers.moved_bytes // 2)
    target = opened.allocate(half)
    flushed = 0 if buffers.exceeds_the_cache else opened.allocate(3 * opened.l2_bytes)
    libraries = []
    contenders: list[Contender] = []
    absent: dict[str, str] = {}
    try:
        ours, scalars = own_contender(opened, kernel.spec, kernel, buffers, {}, 0)
        ours.run(0)
        contenders.append(Contender(PLANNED, ours.run))
        for name in peers:
            called = case.called(name)
            libraries.append(library(called.library, opened.stream_handle))
            report, peer = enter(libraries[-1], kernel.spec, buffers, scalars, called)
            if peer is None:
                absent[name] = report.absent
            else:
                contenders.append(peer)
        is_read = buffers.written_bytes < _MAX_WRITE_SHARE_OF_READ * buffers.moved_bytes
        copied, read = min(half, buffers.set_bytes), min(buffers.moved_bytes, buffers.set_bytes)
        if is_read:
            contenders.append(Contender(READ, lambda n: opened.read(buffers.start(n), read)))
        else:
            contenders.append(Contender(COPY, lambda n: opened.copy(target, buffers.start(n), copied)))
        flush = (lambda: opened.read(flushed, 3 * opened.l2_bytes)) if flushed else None
        cold = measure(contenders, opened, Plan(buffers.count, flush, _SAMPLES, _BUDGET_US))["cold"]
        opened.synchronize()
    finally:
        contenders.clear()
        for used in libraries:
            used.release()
        buffers.release()
        opened.release(target)
        if flushed:
            opened.release(flushed)
    times = {name: taken.median for name, taken in cold.items()}
    launches = kernel.plan.kernels
    return {
        "name": case.name,
        "plan": [f"{launch.family}: {'; '.join(launch.reasons)}" for launch in launches],
        "cold_us": times,
        "ceiling": READ if is_read else COPY,
        "share": times[READ if is_read else COPY] / times[PLANNED],
        "ratios": {name: times[name] / times[PLANNED] for name in peers if name in times},
        "absent": absent,
    }


def figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The means and the worst cases."""
    shares = [entry["share"] for entry in rows]
    ratios = [entry["ratios"][TORCH] for entry in rows if TORCH in entry["ratios"]]
    return {
        "mean_share": geometric_mean(shares),
        "worst_share": min(shares),
        "mean_ratio": geometric_mean(ratios),
        "worst_ratio": min(ratios),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=30, help="drawn after the listed ones")
    parser.add_argument("--compile", action="store_true", help="also time the peer as compiled by torch.compile")
    parser.add_argument("--output", type=Path, metavar="FILE", help="JSON file of the rows")
    args = parser.parse_args()
    print(f"seed {args.seed}")
    draws = drawn(Random(args.seed))
    cases = [*LISTED, *(next(draws) for _ in range(args.cases))]
    peers = (TORCH, COMPILED) if args.compile else (TORCH,)
    rows: list[dict[str, Any]] = []
    with session() as opened:
        with ProcessPoolExecutor() as pool:
            list(pool.map(compiled, cases, [opened.capability] * len(cases)))
        head = about(opened.device)
        for case in cases:
            rows.append(row(opened, case, peers))
            times = "  ".join(f"{name} {us:.1f}" for name, us in rows[-1]["cold_us"].items())
            ratios = " ".join(f"{ratio:6.2f}" for ratio in rows[-1]["ratios"].values())
            absent = "; ".join(rows[-1]["absent"].values())
            print(f"{rows[-1]['share']:5.2f} {ratios:6}  {case.name}: {times}  {absent}", flush=True)
            if args.output:
                save(args.output, head | figures(rows) | {"cases": rows})
    print("  ".join(f"{name} {value:.3f}" for name, value in figures(rows).items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
