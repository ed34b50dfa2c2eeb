"""Convolutions: as planned, with register windows, as an implicit GEMM, and by PyTorch.

    python -m benchmarks.operators.convolutions [--seed 1] [--cases 24] [--output docs/results/convolutions_h100.json]

Register windows are `family: stencil`, an implicit GEMM `family: gemm`: its copies compute where the windows are. After
the listed shapes, of image networks, others are drawn from the seed: ranks, layouts, types, taps, strides, dilations
and groups. PyTorch takes cuDNN's fastest algorithm, without tf32.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from random import Random
from typing import Any

from benchmarks.timing.cases import spec_text
from benchmarks.timing.cold_times import TORCH
from benchmarks.timing.plan_variants import Comparison
from cugen.bench.peers import Called
from cugen.kernel import Kernel, generate
from cugen.machine import architecture_specific
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text

PLANNED, WINDOWS, GEMM = "planned", "windows", "gemm"
VARIANTS = (PLANNED, WINDOWS, GEMM)
MIN_TERMS, MAX_TERMS = 1 << 24, 1 << 36
MAX_BYTES = 1 << 30  # of an array


@dataclass(frozen=True)
class Case:
    """A convolution of `batch` images with `sizes` pixels, with as many taps, a stride and a dilation along each
    dimension; channels `last` or first."""

    dtype: str
    last: bool
    batch: int
    channels: int
    features: int
    sizes: tuple[int, ...]
    taps: tuple[int, ...]
    stride: int = 1
    dilation: int = 1
    is_padded: bool = True

    @property
    def pads(self) -> tuple[int, ...]:
        return tuple(self.dilation * (count - 1) // 2 if self.is_padded else 0 for count in self.taps)

    @property
    def outputs(self) -> tuple[int, ...]:
        spans = (self.dilation * (count - 1) for count in self.taps)
        moved = zip(self.sizes, self.pads, spans, strict=True)
        return tuple((size + 2 * pad - span - 1) // self.stride + 1 for size, pad, span in moved)

    @property
    def terms(self) -> int:
        return self.batch * self.channels * self.features * math.prod(self.outputs) * math.prod(self.taps)

    def _shape(self, batch: Any, channels: Any, pixels: tuple[Any, ...]) -> str:
        order = (batch, *pixels, channels) if self.last else (batch, channels, *pixels)
        return f"[{', '.join(map(str, order))}]"

    @property
    def text(self) -> str:
        rank = len(self.sizes)
        i, r = "ijl"[:rank], "rst"[:rank]
        arrays = {
            "x": f"{self._shape(self.batch, self.channels, self.sizes)} | {self.dtype} | boundary: zero",
            "w": f"{self._shape(self.features, self.channels, self.taps)} | {self.dtype}",
            "y": f"{self._shape(self.batch, self.features, self.outputs)} | {self.dtype}",
        }
        moving = tuple(f"{self.stride}*{i[d]} + {self.dilation}*{r[d]} - {self.pads[d]}" for d in range(rank))
        read = f"x{self._shape('n', 'c', moving)} * w{self._shape('k', 'c', tuple(r))}"
        return spec_text("conv", {}, arrays, f"y{self._shape('n', 'k', tuple(i))} = sum({read}, c, {', '.join(r)})")

    @property
    def peer(self) -> Called:
        rank = len(self.sizes)
        first = (0, rank + 1, *range(1, rank + 1))
        last = (0, *range(2, rank + 2), 1)
        call = (
            f"torch.nn.functional.conv{rank}d(x{{0}}, w{{0}}, stride={self.stride}, padding={self.pads},"
            f" dilation={self.dilation}){{1}}"
        )
        views = (f".permute{first}", f".permute{last}") if self.last else ("", "")
        return Called(TORCH, TORCH, f"def peer(x, w):\n    return ({call.format(*views)},)\n")


FLOAT, BRAIN, HALF = "float32", "bfloat16", "float16"
LISTED = (
    Case(FLOAT, False, 16, 64, 64, (56, 56), (3, 3)),
    Case(FLOAT, False, 16, 128, 128, (28, 28), (3, 3)),
    Case(FLOAT, False, 16, 256, 256, (14, 14), (3, 3)),
    Case(FLOAT, False, 16, 512, 512, (7, 7), (3, 3)),
    Case(FLOAT, False, 16, 3, 64, (224, 224), (7, 7), 2),
    Case(FLOAT, False, 8, 3, 96, (227, 227), (11, 11), 4, 1, False),
    Case(FLOAT, False, 8, 64, 128, (56, 56), (3, 3), 2),
    Case(FLOAT, False, 8, 32, 64, (100, 130), (5, 5)),
    Case(FLOAT, False, 8, 48, 80, (61, 67), (3, 3), 1, 2),
    Case(FLOAT, False, 16, 64, 128, (4096,), (3,)),
    Case(FLOAT, False, 4, 16, 32, (24, 48, 48), (3, 3, 3)),
    Case(FLOAT, False, 1, 16, 16, (512, 512), (3, 3)),
    Case(FLOAT, True, 16, 64, 64, (56, 56), (3, 3)),
    Case(BRAIN, True, 32, 64, 64, (56, 56), (3, 3)),
    Case(BRAIN, True, 32, 128, 128, (28, 28), (3, 3)),
    Case(BRAIN, True, 32, 256, 256, (14, 14), (3, 3)),
    Case(BRAIN, True, 32, 512, 512, (7, 7), (3, 3)),
    Case(BRAIN, True, 32, 128, 256, (56, 56), (3, 3), 2),
    Case(BRAIN, True, 8, 320, 320, (64, 64), (3, 3)),
    Case(HALF, True, 8, 96, 192, (50, 70), (5, 5)),
    Case(BRAIN, False, 16, 128, 128, (28, 28), (3, 3)),
    Case(BRAIN, True, 4, 64, 64, (16, 56, 56), (3, 3, 3)),
    Case(BRAIN, True, 16, 3, 64, (224, 224), (7, 7), 2),
)


def drawn(random: Random) -> Case:
    """A case whose work and arrays are within limits."""
    while True:
        rank = random.choice((1, 2, 2, 2, 3))
        dtype = random.choice((FLOAT, FLOAT, BRAIN, HALF))
        channels, features = (random.choice((3, 16, 24, 32, 48, 64, 96, 128, 200, 256, 512)) for _ in range(2))
        limit = (20000, 300, 64)[rank - 1]
        sizes = tuple(int(6 * (limit / 6) ** random.random()) for _ in range(rank))
        taps = tuple(random.choice((1, 3, 3, 5, 7)) for _ in range(rank))
        batch = random.choice((1, 2, 4, 8, 16, 32, 64))
        last = dtype != FLOAT or random.random() < 0.25
        stride, dilation = random.choice((1, 1, 1, 2)), random.choice((1, 1, 1, 2))
        case = Case(dtype, last, batch, channels, features, sizes, taps, stride, dilation, random.random() < 0.8)
        if min(case.outputs) < 1 or math.prod(taps) == 1:
            continue
        pixels = max(channels * math.prod(sizes), features * math.prod(case.outputs))
        if MIN_TERMS <= case.terms <= MAX_TERMS and 4 * batch * pixels <= MAX_BYTES:
            return case


def planned(case: Case, variant: str, capability: str) -> Kernel | None:
    """The kernel of a variant; None if it is refused."""
    request = {WINDOWS: "schedule: {family: stencil}\n", GEMM: "schedule: {family: gemm}\n"}
    (spec,) = load_text(f"{case.text}target: {architecture_specific(capability)}\n{request.get(variant, '')}")
    try:
        return generate(spec, remarks="none")
    except SpecError:
        return None


COMPARISON = Comparison(LISTED, drawn, VARIANTS, planned)

if __name__ == "__main__":
    sys.exit(COMPARISON.main(__doc__))
