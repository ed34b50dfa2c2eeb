"""Times of kernels of one spec beside PyTorch, with cold caches and interleaved samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cugen.bench.buffers import Buffers
from cugen.bench.libraries import library
from cugen.bench.measure import own_contender
from cugen.bench.peers import Called, enter
from cugen.bench.protocol import Contender, Plan, measure
from cugen.bench.session import Session
from cugen.kernel import Kernel
from cugen.runtime.inputs import known_params
from cugen.spec.model import Spec

TORCH = "torch"


@dataclass(frozen=True)
class ColdTimes:
    """Medians in microseconds of kernels by name, and of PyTorch, if it isn't `absent` for a reason; how much the first
    kernel's results differ from its."""

    us: Mapping[str, float]
    difference: float | None
    absent: str

    @property
    def with_torch(self) -> Mapping[str, float]:
        """The medians. RuntimeError without PyTorch."""
        if self.absent:
            raise RuntimeError(self.absent)
        return self.us


def defaults(spec: Spec) -> dict[str, int]:
    """The values of dynamic params that have a default."""
    return {p.name: p.default for p in spec.params if p.default is not None}


def cold_times(
    opened: Session, kernels: Mapping[str, Kernel], peer: Called | None = None, *, samples: int, budget_us: float
) -> ColdTimes:
    """Times kernels of one spec beside PyTorch: beside `peer`, or the spec in its words; dynamic params have their
    defaults. RuntimeError where results of a kernel are others."""
    first = next(iter(kernels.values()))
    dynamic = defaults(first.spec)
    buffers = Buffers(opened, first.spec, first.manifest, known_params(first.spec, dynamic), 0)
    flushed = 0 if buffers.exceeds_the_cache else opened.allocate(3 * opened.l2_bytes)
    torch = library(TORCH, opened.stream_handle)
    contenders: list[Contender] = []
    differences: list[float | None] = []
    try:
        for name, kernel in kernels.items():
            contender, scalars = own_contender(opened, kernel.spec, kernel, buffers, dynamic, 0)
            contender.run(0)
            report, of_torch = enter(torch, first.spec, buffers, scalars, peer)
            differences.append(report.difference)
            contenders.append(Contender(name, contender.run))
        contenders += [of_torch] if of_torch else []
        flush = (lambda: opened.read(flushed, 3 * opened.l2_bytes)) if flushed else None
        cold = measure(contenders, opened, Plan(buffers.count, flush, samples, budget_us))["cold"]
        opened.synchronize()
    finally:
        contenders.clear()
        torch.release()
        buffers.release()
        if flushed:
            opened.release(flushed)
    return ColdTimes({name: taken.median for name, taken in cold.items()}, differences[0], report.absent)
