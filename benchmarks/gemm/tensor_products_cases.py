"""GEMMs of `tensor_products.py`: shapes, types, layouts and epilogues, and their specs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from benchmarks.gemm.products_cases import LAYERS, TOKENS

Sizes = tuple[int, int, int]

# Types of operands and of C; float32 in tf32.
RESULTS = {
    "float16": "float16",
    "bfloat16": "bfloat16",
    "int8": "int32",
    "float8_e4m3": "bfloat16",
    "float32": "float32",
}
# A and B by layout, as in BLAS but row-major: `t` is stored transposed, so A of `n` and B of `t` are K-major.
OPERANDS = {
    "nn": ("A[m, k]", "B[k, n]"),
    "nt": ("A[m, k]", "B[n, k]"),
    "tn": ("A[k, m]", "B[k, n]"),
}
GROUPS = ("cubes", "rectangles", "layers", "unaligned", "drawn", "float8", "float8_fast", "tf32", "int8", "epilogue")
_HALVES, _LAYOUTS = ("bfloat16", "float16"), ("nn", "nt", "tn")
_CUBES = (512, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 6144, 8192)
_RECTANGLES: tuple[Sizes, ...] = (
    (8192, 1024, 8192),
    (4096, 4096, 64),
    (128, 7168, 2048),
    (64, 4096, 4096),
    (16, 4096, 11008),
    (32, 8192, 8192),
)
_UNALIGNED: tuple[Sizes, ...] = ((1000, 777, 513), (2047, 2049, 2051))
_OTHER_CUBES = (2048, 4096, 8192)  # of other types
_SMALLEST, _LARGEST = 16, 8192  # drawn


@dataclass(frozen=True)
class Case:
    """C = A * B of M, N and K. `is_fast`: sums of 8-bit floats may keep the bits that the instruction keeps.
    `has_epilogue`: C = gelu(A * B + bias), with GELU by tanh, as cuBLAS has it."""

    group: str
    dtype: str
    layout: str
    sizes: Sizes
    is_fast: bool = False
    has_epilogue: bool = False

    def __str__(self) -> str:
        return f"{self.group} {self.dtype} {self.layout} {'x'.join(map(str, self.sizes))}"

    @property
    def multiply_adds(self) -> int:
        m, n, k = self.sizes
        return m * n * k

    def spec(self, target: str, more: str = "") -> str:
        """The spec's text, with `more` lines such as a schedule."""
        a, b = OPERANDS[self.layout]
        m, n, k = self.sizes
        product, bias = f"sum({a} * {b}, k)", ""
        if self.has_epilogue:
            product, bias = f"gelu_tanh({product} + bias[n])", f"  bias: {{shape: [N], dtype: {self.dtype}}}\n"
        return (
            f"cugen: 1\nkernel: product\ntarget: {target}\nparams: {{M: {m}, N: {n}, K: {k}}}\narrays:\n"
            f"  A: {{shape: {a[1:].upper()}, dtype: {self.dtype}}}\n"
            f"  B: {{shape: {b[1:].upper()}, dtype: {self.dtype}}}\n{bias}"
            f"  C: {{shape: [M, N], dtype: {RESULTS[self.dtype]}}}\ncompute: C[m, n] = {product}\n"
            f"accumulate: {{tf32: true, fp8: {'fast' if self.is_fast else 'exact'}}}\n{more}"
        )


def cases(random: Random, drawn: int) -> Iterator[Case]:
    """Cases of every group, with so many drawn shapes."""
    shapes = {"cubes": [(n, n, n) for n in _CUBES], "rectangles": _RECTANGLES, "unaligned": _UNALIGNED}
    shapes["drawn"] = [drawn_sizes(random) for _ in range(drawn)]
    for group, of_group in shapes.items():
        for dtype in _HALVES:
            yield from (Case(group, dtype, layout, sizes) for sizes in of_group for layout in _LAYOUTS)
    for n, k in LAYERS:
        yield from (Case("layers", "bfloat16", layout, (m, n, k)) for m in TOKENS for layout in ("nn", "nt"))
    of_other_types = [("nt", n) for n in _OTHER_CUBES] + [("nn", _OTHER_CUBES[1])]
    for group, dtype in (
        ("float8", "float8_e4m3"),
        ("float8_fast", "float8_e4m3"),
        ("tf32", "float32"),
        ("int8", "int8"),
    ):
        for layout, n in of_other_types:
            yield Case(group, dtype, layout, (n, n, n), is_fast=group == "float8_fast")
    yield Case("epilogue", "bfloat16", "nt", (4096, 4096, 4096), has_epilogue=True)


def drawn_sizes(random: Random) -> Sizes:
    """Log-uniform along each axis; half of the shapes in multiples of 8."""
    m, n, k = (int(_SMALLEST * (_LARGEST / _SMALLEST) ** random.random()) for _ in range(3))
    return (m // 8 * 8, n // 8 * 8, k // 8 * 8) if random.random() < 0.5 else (m, n, k)
