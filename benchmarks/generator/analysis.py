"""Time of a kernel's analysis, for several problem sizes: it should not depend on the size.

    python -m benchmarks.generator.analysis [--target sm_90]

Each figure is the minimum of five runs in one process, without planning: every access with its exact totals, verdict
and reason.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
import time
from pathlib import Path

from cugen.analysis.verdicts.report import analyze_kernel
from cugen.plan.kernel import Kernel
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text

_SIZES = (64, 512, 4096, 8192, 65536)
_RUNS = 5  # of which the minimum counts

_SPECS = {
    "tiled product": """
cugen: 1
kernel: product
params: {N: $N}
arrays:
  A: {shape: [N, N], dtype: float32, memory: {space: shared, pad: 1}}
  B: {shape: [N, N], dtype: float32, memory: shared}
  C: {shape: [N, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: 16, n: 16}, step: {k: 16}}
""",
    "transpose": """
cugen: 1
kernel: turned
params: {N: $N}
arrays:
  A: {shape: [N, N], dtype: float32, memory: {space: shared, pad: 1}}
  B: {shape: [N, N], dtype: float32}
compute: B[n, m] = A[m, n]
""",
    "stencil": """
cugen: 1
kernel: smoothed
params: {N: $N}
arrays:
  A: {shape: [N, N], dtype: float32, boundary: clamp}
  B: {shape: [N, N], dtype: float32}
compute: B[y, x] = sum(A[y + r - 1, x + s - 1], r, s) / 9
indices: {r: 3, s: 3}
""",
    "triangular product": """
cugen: 1
kernel: triangular
params: {N: $N}
arrays:
  A: {shape: [N, N], dtype: float32}
  B: {shape: [N, N], dtype: float32}
  C: {shape: [N, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k, where=k <= m)
""",
}


def main() -> None:
    """Prints a row for each kernel, in milliseconds: powers of two, and these plus one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="sm_90")
    target = parser.parse_args().target
    print(f"{_machine()}; {datetime.date.today().isoformat()}; {' '.join(('python', *sys.argv))}\n")
    sizes = [size + odd for size in _SIZES for odd in (0, 1)]
    print(f"| ms | {' | '.join(f'{size}³' for size in sizes)} |\n|---|{'---:|' * len(sizes)}")
    for name, text in _SPECS.items():
        cells = [_milliseconds(text, size, target) for size in sizes]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _milliseconds(text: str, size: int, target: str) -> str:
    """Time in milliseconds, with a mark if the kernel has an access with unknown cost."""
    (spec,) = load_text(text.replace("$N", str(size)))
    (kernel,) = make_plan(spec).kernels
    took = min(_seconds(kernel, target, size) for _ in range(_RUNS))
    unknown = any(access.totals is None for access in analyze_kernel(kernel, target, {"N": size}).accesses)
    return f"{took * 1e3:.1f}{' (unknown)' if unknown else ''}"


def _seconds(kernel: Kernel, target: str, size: int) -> float:
    start = time.perf_counter()
    analyze_kernel(kernel, target, {"N": size})
    return time.perf_counter() - start


def _machine() -> str:
    """Processor and Python version."""
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
