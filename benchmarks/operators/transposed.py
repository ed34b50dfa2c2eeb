"""Float32 transposed convolutions: as planned, with register windows, with stored products, and by PyTorch.

    python -m benchmarks.operators.transposed [--seed 1] [--cases 24] [--output docs/results/transposed_h100.json]

Register windows are `family: stencil`, stored products a GEMM over the channels and a sum of its results. After the
listed shapes, of image generators and decoders, others are drawn from the seed. PyTorch takes cuDNN's fastest
algorithm, without tf32.
"""

from __future__ import annotations

import sys
from dataclasses import astuple, dataclass
from random import Random
from unittest.mock import patch

from benchmarks.timing.cases import spec_text
from benchmarks.timing.cold_times import TORCH
from benchmarks.timing.plan_variants import Comparison
from cugen.bench.peers import Called
from cugen.families.gemm.tiled import family as tiled
from cugen.kernel import Kernel, generate
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text

PLANNED, WINDOWS, PRODUCTS = "planned", "windows", "products"
VARIANTS = (PLANNED, WINDOWS, PRODUCTS)
WAYS = ((2, 2, 0), (3, 2, 1), (3, 3, 0), (4, 2, 1), (5, 2, 2))  # taps, stride and padding
MIN_TERMS, MAX_TERMS = 1 << 23, 1 << 33
MAX_PRODUCTS = 1 << 27  # that are stored


@dataclass(frozen=True)
class Case:
    """x [batch, channels, height, width], y [batch, features, …]."""

    batch: int
    channels: int
    features: int
    height: int
    width: int
    taps: int
    stride: int
    pad: int

    @property
    def products(self) -> int:
        return self.batch * self.features * self.height * self.width * self.taps**2

    @property
    def text(self) -> str:
        b, c, f, h, w, r, s, p = astuple(self)
        outputs = ", ".join(str((size - 1) * s - 2 * p + r) for size in (h, w))
        arrays = {
            "x": f"[{b}, {c}, {h}, {w}] | float32 | boundary: zero",
            "w": f"[{c}, {f}, {r}, {r}] | float32",
            "y": f"[{b}, {f}, {outputs}] | float32",
        }
        read = f"x[n, c, (i + {p} - r) / {s}, (j + {p} - s) / {s}]"
        return spec_text("transposed", {}, arrays, f"y[n, k, i, j] = sum({read} * w[c, k, r, s], c, r, s)")

    @property
    def peer(self) -> Called:
        call = f"torch.nn.functional.conv_transpose2d(x, w, stride={self.stride}, padding={self.pad})"
        return Called(TORCH, TORCH, f"def peer(x, w):\n    return ({call},)\n")


LISTED = (
    Case(1, 64, 64, 64, 64, 4, 2, 1),
    Case(1, 128, 64, 32, 32, 4, 2, 1),
    Case(1, 256, 128, 16, 16, 4, 2, 1),
    Case(1, 512, 256, 8, 8, 4, 2, 1),
    Case(1, 1024, 512, 4, 4, 4, 2, 1),
    Case(8, 64, 32, 64, 64, 4, 2, 1),
    Case(8, 32, 3, 128, 128, 4, 2, 1),
    Case(1, 64, 64, 128, 128, 2, 2, 0),
    Case(4, 128, 64, 56, 56, 2, 2, 0),
    Case(1, 16, 16, 256, 256, 3, 2, 1),
    Case(1, 64, 32, 57, 61, 3, 3, 0),
    Case(2, 96, 48, 33, 47, 5, 2, 2),
    Case(16, 256, 128, 16, 16, 4, 2, 1),
    Case(1, 32, 32, 200, 200, 4, 2, 1),
    Case(4, 256, 256, 28, 28, 3, 2, 1),
    Case(16, 512, 256, 8, 8, 4, 2, 1),
)


def drawn(random: Random) -> Case:
    """A case whose work and products are within limits; most have channels near those from which products pay off."""
    while True:
        channels = random.choice((16, 32, 40, 48, 56, 64, 80, 96, 128, 256, 512))
        features = random.choice((3, 16, 32, 48, 64, 128, 256))
        height, width = (int(4 * 64 ** random.random()) for _ in range(2))
        batch = random.choice((1, 1, 2, 4, 8, 16, 32))
        case = Case(batch, channels, features, height, width, *random.choice(WAYS))
        if case.products <= MAX_PRODUCTS and MIN_TERMS <= case.products * channels <= MAX_TERMS:
            return case


def planned(case: Case, variant: str, _: str) -> Kernel | None:
    """The kernel of a variant; None if it is refused."""
    (spec,) = load_text(f"{case.text}schedule: {{family: stencil}}\n" if variant == WINDOWS else case.text)
    limit = 0 if variant == PRODUCTS else tiled.MIN_STORED_CHANNELS
    try:
        with patch.object(tiled, "MIN_STORED_CHANNELS", limit):
            kernel = generate(spec, remarks="none")
    except SpecError:
        return None
    return None if variant == PRODUCTS and len(kernel.plan.kernels) == 1 else kernel


COMPARISON = Comparison(LISTED, drawn, VARIANTS, planned)

if __name__ == "__main__":
    sys.exit(COMPARISON.main(__doc__))
