"""Times of kernels of one spec beside PyTorch, with cold caches and interleaved samples."""

from __future__ import annotations

from collections.abc import Mapping

from cugen.bench.buffers import Buffers
from cugen.bench.libraries import library
from cugen.bench.measure import own_contender
from cugen.bench.peers import Called, enter
from cugen.bench.protocol import Contender, Plan, measure
from cugen.bench.session import Session
from cugen.kernel import Kernel
from cugen.runtime.inputs import known_params

TORCH = "torch"


def cold_times(
    opened: Session, kernels: Mapping[str, Kernel], peer: Called | None = None, *, samples: int, budget_us: float
) -> tuple[dict[str, float], float | None]:
    """Medians in microseconds of the kernels by name, and of PyTorch: of `peer`, or the spec in its words; and how much
    the first kernel's results differ from these. RuntimeError where any kernel's results are others."""
    first = next(iter(kernels.values()))
    buffers = Buffers(opened, first.spec, first.manifest, known_params(first.spec, {}), 0)
    flushed = 0 if buffers.exceeds_the_cache else opened.allocate(3 * opened.l2_bytes)
    torch = library(TORCH, opened.stream_handle)
    contenders: list[Contender] = []
    differences: list[float | None] = []
    try:
        for name, kernel in kernels.items():
            contender, scalars = own_contender(opened, kernel.spec, kernel, buffers, {}, 0)
            contender.run(0)
            report, of_torch = enter(torch, first.spec, buffers, scalars, peer)
            if of_torch is None:
                raise RuntimeError(f"{kernel.name}, {name}: {report.absent}")
            differences.append(report.difference)
            contenders.append(Contender(name, contender.run))
        contenders.append(of_torch)
        flush = (lambda: opened.read(flushed, 3 * opened.l2_bytes)) if flushed else None
        cold = measure(contenders, opened, Plan(buffers.count, flush, samples, budget_us))["cold"]
        opened.synchronize()
    finally:
        contenders.clear()
        torch.release()
        buffers.release()
        if flushed:
            opened.release(flushed)
    return {name: taken.median for name, taken in cold.items()}, differences[0]
